// Every control message survives the wire: written with save() (an unregistered type would be
// silently empty) and read back equal, field by field, by comparing a second serialisation.
#include <gtest/gtest.h>

#include <bit>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <limits>

#include "runtime/control/messages.hpp"
#include "runtime/control/system.hpp"
#include "tests/support/basp_bytes.hpp"

namespace cohort::control {
namespace {

constexpr auto k_kind = TrajectoryKind::val_greedy;
constexpr auto k_values = UpdateStage::values;
const NamedHistograms k_bins = {{"rollout/score", {-0.5, 1.5, {1, 2, 3}}}};

std::vector<char> save(caf::actor_system& system, const caf::message& message) {
  std::vector<char> bytes;
  caf::binary_serializer sink{system, bytes};
  caf::error error = message.save(sink);
  EXPECT_FALSE(error) << caf::to_string(error);
  return bytes;
}

void round_trip(caf::actor_system& system, const caf::message& message) {
  std::vector<char> bytes = save(system, message);
  ASSERT_GT(bytes.size(), 8U) << caf::to_string(message);
  caf::binary_deserializer source{system, bytes};
  caf::message copy;
  caf::error error = copy.load(source);
  ASSERT_FALSE(error) << caf::to_string(error);
  EXPECT_EQ(save(system, copy), bytes);
  auto passes = detail::check_payload(system, detail::BaspKind::direct_message,
                                      cohort::test::direct_payload(system, message));
  EXPECT_TRUE(passes) << "WIRE-3: " << passes.error().to_string();
  EXPECT_EQ(caf::to_string(copy), caf::to_string(message));
}

TEST(ControlMessages, EveryTypeRoundTrips) {
  SystemConfig config({.scheduler_threads = 1, .is_test = true});
  caf::actor_system system{config};
  plan::Command command{plan::Command::Verb::onload, plan::PhaseKind::update, "actor_train", {3},
                        plan::Object::optimizer,     plan::Place::card,       4096};
  Transition transition{command, 4096, 4095, 1.5, 0.25};
  std::vector<std::pair<std::string, double>> metrics = {{"loss", 0.5}, {"actor/entropy", 1.25}};
  round_trip(
      system,
      caf::make_message(
          card_atom_v, CardCommand{7, command, 2, PublishStage::commit, "actor_infer", 3, {4, 5}}));
  round_trip(system,
             caf::make_message(CardReply{
                 7, 1, 2, 0.5, 3, 0xFFFFFFFFFFFFFFFF, 4, 5, "process 1", 6, {{1, 2}, {3, 4}}}));
  round_trip(system, caf::make_message(phase_atom_v, PhaseRequest{3, plan::PhaseKind::publish, 9}));
  round_trip(system,
             caf::make_message(PhaseReport{
                 3, plan::PhaseKind::publish, 0.5, {transition}, {{0, 1}, {1, 2}}, {"leak"}}));
  round_trip(system,
             caf::make_message(
                 lease_atom_v,
                 Lease{k_kind, 2, 3, {4, 9}, 5, {6, 7}, 8, {"a", "b"}, 0.5, {{1}, {0, 2}}, 10}));
  round_trip(system, caf::make_message(LeaseReport{1, 2, 3, 4, 5, 0.5, 0.25, 6}, SiftReport{{1}}));
  round_trip(system, caf::make_message(expect_atom_v, CollectRequest{k_kind, 2, 3, 4, {5, 6}}));
  round_trip(system, caf::make_message(CollectReport{1, 2, 3, metrics, metrics, {4}, k_bins, "t"}));
  round_trip(system, caf::make_message(update_atom_v, UpdateRequest{k_kind, 2, 3, 4, k_values}));
  round_trip(system, caf::make_message(UpdateReport{1, 2, 0.5, 3, metrics, 4, k_bins}));
  round_trip(system, caf::make_message(save_atom_v, CheckpointRequest{1, "folder", "{}"}));
  round_trip(system, caf::make_message(CheckpointReport{"folder", 1, "{}", 0.5}));
  round_trip(system, caf::make_message(join_atom_v, ProcessHello{1, 2, 3}));
  caf::scoped_actor self{system};
  const ProcessOrder order{1, 2, 3, "cards [2]: actor_infer", {{"OMP_NUM_THREADS", "1"}}, true};
  round_trip(system, caf::make_message(join_atom_v,
                                       NodeHello{1, 2, "0.1.0", -1, "host", "10.0.0.1", 4711, 8}));
  round_trip(system, caf::make_message(NodeWelcome{1, 2, 3}));
  round_trip(
      system,
      caf::make_message(ClusterStatus{
          "0.1.0",
          1.5,
          {{1, "host", "10.0.0.1", "0.1.0", 4711, 8, 0.25, true, {"run: cards [2]"}, true, true}},
          {"run"}}));
  round_trip(system,
             caf::make_message(launch_atom_v,
                               LaunchRequest{"run", "10.0.0.1:1", self->ctrl(), {order}, 7, "f"}));
  round_trip(system, caf::make_message(fail_atom_v, ProcessExit{"run", order, "was killed", 7}));
  round_trip(system, caf::make_message(leave_atom_v, LeaveOrder{{1, 2}, 3000}));
  round_trip(system, caf::make_message(end_atom_v, RunEnd{"run", false, "why"}));
  round_trip(system, caf::make_message(table_atom_v,
                                       TableRequest{TableVerb::put_if_absent, "g/join/1", "here"}));
  round_trip(system, caf::make_message(TableReply{true, std::string("x\0y", 3), 10, "full"}));
  round_trip(system, caf::make_message(
                         ProcessWelcome{"run", "folder", "here", "a: 1", "sockets", {0, 1}, 2, 3}));
  round_trip(system, caf::make_message(
                         ready_atom_v,
                         ProcessReady{1, {{Role::actor_infer, 2, self->ctrl()}}, 3, self->ctrl()}));
  round_trip(system, caf::make_message(lost_atom_v, ProcessLost{1, 2, "was killed", true}));
  round_trip(system, caf::make_message(lost_atom_v, CardsLost{{1, 2}, "was killed", true}));
  round_trip(system,
             caf::make_message(back_atom_v, CardsBack{{{Role::actor_infer, 2, self->ctrl()}}}));
  round_trip(system, caf::make_message(RecordedReport{{{1, 2}, {3, 4}}}));
  round_trip(system, caf::make_message(mask_atom_v, MaskRequest{k_kind, 2, 3, 4, 5, "run", "tag", 6,
                                                                "a:7", "why"}));
  round_trip(system, caf::make_message(judge_atom_v,
                                       ProcessJudgement{1, Judgement::hung, "does not get on"}));
  round_trip(system, caf::make_message(ping_atom_v, uint64_t{7}));
  round_trip(system, caf::make_message(fence_atom_v, std::string("actor_infer@1->rewards")));
  round_trip(system, caf::make_message(fail_atom_v,
                                       Failure{"role", "phase", "detail", true, true, "link"}));
}

TEST(ControlMessages, WaitsRoundTrip) {
  SystemConfig config({.scheduler_threads = 1, .is_test = true});
  caf::actor_system system{config};
  const WaitEntry wait{WaitLevel::call, "who", "what", "ends", "in x.py:3", 4127, 99.5};
  round_trip(system, caf::make_message(waits_atom_v, WaitsQuery{"run", 1, 500, 9000, "folder"}));
  round_trip(system, caf::make_message(NodeWaits{"host",
                                                 100.5,
                                                 {{1, "run", "host", 2, 3, {wait}}},
                                                 {{1, {'S', 0.5, 4, 5}}},
                                                 {{"other", 2}}}));
}

TEST(ControlMessages, AKindTravelsByItself) {
  SystemConfig config({.scheduler_threads = 1, .is_test = true});
  caf::actor_system system{config};
  round_trip(system, caf::make_message(collect_atom_v, k_kind, uint64_t{2}));
}

// CAF's own form of an infinity is never written to its end, and a NaN arrives as a number.
TEST(ControlMessages, EveryNumberArrivesBitForBit) {
  SystemConfig config({.scheduler_threads = 1, .is_test = true});
  caf::actor_system system{config};
  using Limits = std::numeric_limits<double>;
  for (double x : {0.0, -0.0, 0.1, -1e300, Limits::infinity(), -Limits::infinity(),
                   Limits::quiet_NaN(), Limits::denorm_min(), Limits::max(), Limits::min()}) {
    const UpdateReport report{1, 2, x, 3, {{"actor/ratio_max", x}, {"", -x}}, 4};
    std::vector<char> bytes = save(system, caf::make_message(report));
    caf::binary_deserializer source{system, bytes};
    caf::message copy;
    ASSERT_FALSE(copy.load(source)) << x;
    const auto& read = copy.get_as<UpdateReport>(0);
    auto bits = [](double y) { return std::bit_cast<uint64_t>(y); };
    EXPECT_EQ(bits(read.compute_seconds), bits(x));
    ASSERT_EQ(read.metrics.size(), 2U);
    EXPECT_EQ(read.metrics[0].first, "actor/ratio_max");
    EXPECT_EQ(bits(read.metrics[0].second), bits(x));
    EXPECT_EQ(bits(read.metrics[1].second), bits(-x));
  }
}

TEST(ControlMessages, ErrorsKeepCodeAndText) {
  SystemConfig config({.scheduler_threads = 1, .is_test = true});
  caf::actor_system system{config};
  Error error{Errc::capacity, "card 1: 5 > 4"};
  Error back = from_caf(to_caf(error));
  EXPECT_EQ(back.code, Errc::capacity);
  EXPECT_EQ(back.detail, error.detail);
  EXPECT_EQ(from_caf(caf::make_error(caf::sec::request_timeout)).code, Errc::timeout);
  try {
    throw std::runtime_error("boom");
  } catch (...) {
    EXPECT_NE(from_caf(to_error(std::current_exception())).detail.find("boom"), std::string::npos);
  }
}

}  // namespace
}  // namespace cohort::control
