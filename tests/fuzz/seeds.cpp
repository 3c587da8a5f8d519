// Writes the seeds that need an encoder of ours: fuzz_seeds tests/fuzz/corpus. What the fuzzer
// found by itself, and what once failed, lies beside them and stays.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/control/messages.hpp"
#include "runtime/control/system.hpp"
#include "runtime/plugin/child/plugin_frames.hpp"
#include "runtime/proto/link_hello.hpp"
#include "tests/support/basp_bytes.hpp"

namespace {

using namespace cohort;
using control::detail::BaspKind;

struct Writer {
  std::filesystem::path folder;
  void operator()(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder / (name + ".bin"), std::ios::binary) << bytes;
  }
};

constexpr const char* k_curve_key = "#rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";

void write_handshakes(const Writer& write) {
  const std::string endpoint = std::string("tcp://10.0.0.7:40321") + k_curve_key;
  write("hello_v1", proto::encode_hello({1, 1, "20261122-081500-frozen", "actor_infer@2->rewards",
                                         1, 0, 1 << 20, 1000}));
  write("hello_range", proto::encode_hello({1, 2, "20261122-081500-frozen", endpoint, 4711,
                                            123456789, 4 << 20, 250, "rewards"}));
  write("hello_ahead", proto::encode_hello({2, 3, "", "", std::numeric_limits<uint64_t>::max(),
                                            std::numeric_limits<uint64_t>::max(), 0, 0, endpoint}));
  write("welcome_v1", proto::encode_welcome({1, 1, 0, 0, 64 << 20, 64 << 20, "rewards"}));
  write("welcome_v2", proto::encode_welcome({2, 4712, 3, 4710, 1ULL << 40, 1 << 26, endpoint}));
  write("reject_run", proto::encode_reject({Errc::protocol, "this is run a, not run b"}));
  write("reject_key", proto::encode_reject({Errc::denied, endpoint}));
}

void write_plugin_frames(const Writer& write) {
  auto with_kind = [&](const std::string& name, char kind, const std::string& payload) {
    write(name, std::string(1, kind) + payload);
  };
  tasks::RewardRow row;
  row.prompt = "What is 7 * 6?";
  row.response = "The answer is \\boxed{42}.";
  row.ground_truth = "42";
  const tasks::RewardRow* rows[] = {&row, &row};
  with_kind("rows_two", 0, plugin::rows_payload(rows));
  plugin::Results results{3, {}};
  results.rows.resize(2);
  results.rows[0].result.score = -0.5;
  results.rows[0].result.parts = {{"format", 1.0},
                                  {"length", std::numeric_limits<double>::infinity()}};
  results.rows[1].verdict = plugin::Verdict::refused;
  results.rows[1].result = plugin::without_score("it gave a score that is no number");
  with_kind("results_two", 1, plugin::results_payload(results));
  plugin::World world;
  world.step.observation = "SFFF\nFHFH\nFFFH\nHFFG";
  world.actions_left = 7;
  world.instructions = "Answer with Up, Down, Left or Right.";
  with_kind("world_board", 2, plugin::world_payload(world));
  with_kind(
      "failure_long", 3,
      plugin::failure_payload({plugin::Verdict::raised, Errc::timeout, std::string(200, 'x')}));
  for (auto [name, op, payload] :
       {std::tuple{"call_reset", plugin::Op::reset, plugin::reset_payload(1, 42)},
        std::tuple{"call_step", plugin::Op::step, plugin::step_payload(2, "<answer>Up</answer>")},
        std::tuple{"call_close", plugin::Op::close, plugin::close_payload(3)}})
    with_kind(name, static_cast<char>(4 + 5 * static_cast<int>(op)), payload);
}

void write_control_messages(const Writer& write) {
  control::SystemConfig config({.scheduler_threads = 1, .credentials = {}, .is_test = true});
  caf::actor_system system(config);
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<caf::strong_actor_ptr> nobody;
  auto of = [&](BaspKind kind, const auto&... parts) {
    return std::string(1, static_cast<char>(kind)) + test::basp_payload(system, parts...);
  };
  auto direct = [&](const std::string& name, const caf::message& message) {
    write(name, of(BaspKind::direct_message, nobody, message));
  };
  const plan::Command command{
      plan::Command::Verb::onload, plan::PhaseKind::update, "actor_train", {3},
      plan::Object::optimizer,     plan::Place::card,       4096};
  direct("card_command", caf::make_message(control::card_atom::value,
                                           control::CardCommand{7, command, 2, {}, "actor_infer"}));
  direct("card_reply", caf::make_message(control::CardReply{
                           7, 1, 2, 0.5, 3, 4, 5, 6, "process 1", 6, {{1, 2}, {3, 4}}}));
  direct("lease",
         caf::make_message(
             control::lease_atom::value,
             control::Lease{1, 2, 3, {4, 9}, 5, {6, 7}, 8, {"a", "b"}, 0.5, {{1}, {0, 2}}}));
  direct("lease_infinite",  // CAF's own form of an infinity was never written to its end
         caf::make_message(control::lease_atom::value,
                           control::Lease{1, 2, 3, {4}, 5, {6}, 8, {"a"}, infinity, {}}));
  direct("update_infinite",
         caf::make_message(control::UpdateReport{
             1, 2, -infinity, 3, {{"actor/ratio_max", infinity}, {"loss", std::nan("")}}}));
  direct("number_of_caf", caf::make_message(1.5));
  direct("phase_report",
         caf::make_message(control::PhaseReport{
             3, plan::PhaseKind::publish, 0.5, {{command, 1, 2, 3, 4}}, {{0, 1}}, {"leak"}}));
  direct("collect_report", caf::make_message(control::CollectReport{1, 2, 3, {{"reward", 0.25}}}));
  direct("checkpoint", caf::make_message(control::save_atom::value,
                                         control::CheckpointRequest{1, "step_1", "{}"}));
  direct("hello",
         caf::make_message(control::join_atom::value,
                           control::NodeHello{1, 2, "0.1.0", -1, "host", "10.0.0.1", 4711, 8}));
  direct("error", caf::make_message(control::to_caf({Errc::timeout, "nobody answered"})));
  caf::message deep = caf::make_message(std::string("deep"));
  for (int i = 0; i < 300; ++i) deep = caf::make_message(caf::error(1, caf::atom("outer"), deep));
  direct("nested", deep);
  direct("buffer", caf::make_message(std::vector<char>(8, 'x')));
  const caf::node_id here = test::some_node();
  write("server_handshake",
        of(BaspKind::server_handshake, here, std::vector<std::string>{"generic-caf-app"},
           caf::actor_id{9}, std::set<std::string>{"a", "b"}));
  write("client_handshake", of(BaspKind::client_handshake, here));
  write("routed_message", of(BaspKind::routed_message, here, here, nobody,
                             caf::make_message(control::ping_atom::value, uint64_t{1})));
  write("monitor_message", of(BaspKind::monitor_message, here, here));
  write("down_message", of(BaspKind::down_message, here, here,
                           caf::error(caf::exit_reason::remote_link_unreachable)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s tests/fuzz/corpus\n", argv[0]);
    return 2;
  }
  const std::filesystem::path corpus = argv[1];
  write_handshakes({corpus / "link_handshake"});
  write_plugin_frames({corpus / "plugin_frame"});
  write_control_messages({corpus / "control_message"});
  return 0;
}
