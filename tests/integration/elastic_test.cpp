// A run whose rollouts are not always there: the node, and what would be its processes, in this
// one, so that the limits of time can be short.
#include <gtest/gtest.h>

#include <future>
#include <mutex>

#include "actors/node/card_process.hpp"
#include "actors/node/node_actor.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/config/load.hpp"
#include "runtime/control/system.hpp"
#include "tests/support/recovery.hpp"

namespace cohort::actors {
namespace {

using test::TempFolder;

constexpr int k_join_ms = 1500;
constexpr uint64_t k_steps = 16;

/// The configuration that test::tiny_run's words say, on one train card and two infer cards.
config::RunConfig config_of(const TempFolder& folder) {
  std::vector<std::string> words = test::tiny_run(
      folder, {"max_steps=" + std::to_string(k_steps), "eval_steps=-1", "num_gpus_per_node=3",
               "actor_infer.device_mapping=list(range(1,3))", "max_running_requests=4"});
  std::vector<std::string> overrides;
  std::copy_if(words.begin(), words.end(), std::back_inserter(overrides),
               [](const std::string& word) { return word.find('=') != std::string::npos; });
  auto config = config::load(test::config_path(), overrides);
  EXPECT_TRUE(config) << config.error().detail;
  return std::move(*config);
}

/// A run of three slots. Slot s holds card s; who is there the test decides.
class ElasticRun {
 public:
  /// Called when a slot is to be started again. Returns whether it is.
  using OnStart = std::function<bool(ElasticRun&, uint32_t slot)>;
  /// `absent`: slots that the node is told not to wait for. `hung`: their processes never join.
  explicit ElasticRun(std::set<uint32_t> absent, OnStart on_start = {},
                      const std::set<uint32_t>& hung = {})
      : on_start_(std::move(on_start)) {
    options_.config = config_of(folder_);
    auto plan = preflight(options_.config);
    EXPECT_TRUE(plan) << plan.error().detail;
    options_.plan = *plan;
    auto opened = open_run_folder(options_.config);
    EXPECT_TRUE(opened) << opened.error().detail;
    options_.folder = *opened;
    auto writer = stream::Writer::open(options_.folder.path / "stream", {});
    EXPECT_TRUE(writer) << writer.error().detail;
    options_.writer = std::make_shared<stream::Writer>(std::move(*writer));
    RunLogOptions log;
    log.run_folder = options_.folder.path;
    log.total_steps = k_steps;
    log.console = &console_;
    auto run_log = RunLog::open(std::move(log));
    EXPECT_TRUE(run_log) << run_log.error().detail;
    log_ = std::move(*run_log);
    options_.log = log_.get();
    for (uint32_t card : {0U, 1U, 2U}) options_.processes.push_back({{card}});
    options_.wires.socket_folder = folder_.path();
    options_.absent = std::move(absent);
    options_.limits.join_s = 1e-3 * k_join_ms;
    options_.limits.grace_s = 0.1;
    options_.limits.link_verdict_s = 0.2;
    options_.process_control = {[](uint32_t, uint32_t) {},
                                [this](uint32_t slot, uint32_t attempt) {
                                  if (on_start_ && on_start_(*this, slot)) start(slot, attempt);
                                }};
    options_.on_end = [this](RunResult result) {
      if (!is_set_.exchange(true)) ended_.set_value(std::move(result));
    };
    node_ = system_.spawn(node, options_);
    caf::anon_send(node_, control::start_atom_v);
    for (uint32_t slot : {0U, 1U, 2U})
      if (!options_.absent.contains(slot) && !hung.contains(slot)) start(slot, 0);
  }
  ~ElasticRun() {
    caf::scoped_actor self{system_};
    self->request(node_, std::chrono::seconds(10), control::flush_atom_v)
        .receive([](bool) {}, [](const caf::error&) {});
    caf::anon_send_exit(node_, caf::exit_reason::user_shutdown);
    std::lock_guard lock(mutex_);
    for (const auto& process : processes_)
      caf::anon_send_exit(process, caf::exit_reason::user_shutdown);
  }
  void start(uint32_t slot, uint32_t attempt) {
    CardProcessOptions options;
    options.config = options_.config;
    options.plan = options_.plan;
    options.welcome.run_id = options_.folder.run_id;
    options.welcome.run_attempt = options_.folder.attempt;
    options.welcome.run_folder = options_.folder.path;
    options.welcome.cards = {slot};
    options.welcome.attempt = attempt;
    options.wires = options_.wires;
    options.slot = slot;
    options.node = node_;
    options.on_end = [](const std::string&) {};
    auto process = spawn_card_process(system_, std::move(options));
    std::lock_guard lock(mutex_);
    processes_.push_back(process);
  }
  void lose(uint32_t slot, uint32_t attempt, bool is_node_gone = false) {
    caf::anon_send(node_, control::lost_atom_v,
                   control::ProcessLost{slot, attempt, "was killed by the test", is_node_gone});
  }
  void fail_link(const control::Failure& failure) {
    caf::anon_send(node_, control::fail_atom_v, failure);
  }
  /// Returns false if the run ends before it has this many rows.
  bool wait_rows(size_t count) {
    return test::wait_until(
               [&] { return test::hashes(options_.folder.path).size() >= count || is_set_; },
               30000) &&
           (!is_set_ || (ADD_FAILURE() << wait().error, false));
  }
  RunResult wait() {
    auto future = ended_.get_future();
    const bool is_over = future.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
    EXPECT_TRUE(is_over) << "the run hangs";
    return is_over ? future.get() : RunResult{};
  }
  test::StreamFacts facts() {
    EXPECT_TRUE(options_.writer->sync());
    return test::read_stream(options_.folder.path);
  }
  std::map<uint64_t, std::string> hashes() const { return test::hashes(options_.folder.path); }

 private:
  TempFolder folder_;
  OnStart on_start_;
  NodeOptions options_;
  observe::Console console_{observe::choose_console(/*is_quiet=*/true)};
  std::unique_ptr<RunLog> log_;
  std::promise<RunResult> ended_;
  std::atomic<bool> is_set_ = false;
  // A rollout that opens its seat waits for the node, which would have its own process.
  control::SystemConfig config_{{.scheduler_threads = 6, .is_test = false}};
  caf::actor_system system_{config_};
  std::mutex mutex_;
  std::vector<CardProcessActor> processes_;
  NodeActor node_;
};

const std::map<uint64_t, std::string>& calm_hashes() {
  static const std::map<uint64_t, std::string> hashes = [] {
    ElasticRun calm({});
    const RunResult result = calm.wait();
    EXPECT_TRUE(result.is_ok) << result.error;
    return calm.hashes();
  }();
  return hashes;
}

TEST(Elastic, ARolloutThatDoesNotComeBackIsDoneWithout) {
  ElasticRun run({});
  ASSERT_TRUE(run.wait_rows(1));
  run.lose(2, 0);
  const RunResult result = run.wait();
  EXPECT_TRUE(result.is_ok) << result.error;
  EXPECT_EQ(run.hashes(), calm_hashes());
  EXPECT_EQ(test::flow_1(run.facts(), k_steps, 8, 4), "");
  EXPECT_EQ(run.facts().of_kind("lost").size(), 1U);
  EXPECT_TRUE(run.facts().of_kind("admitted").empty());
}

TEST(Elastic, ARunBeginsWithoutANodeThatJoinsLater) {
  ElasticRun run({2});
  ASSERT_TRUE(run.wait_rows(2));
  run.start(2, 0);
  const RunResult result = run.wait();
  EXPECT_TRUE(result.is_ok) << result.error;
  EXPECT_EQ(run.hashes(), calm_hashes());
  EXPECT_EQ(test::flow_1(run.facts(), k_steps, 8, 4), "");
  EXPECT_EQ(run.facts().of_kind("away").size(), 1U);
  EXPECT_EQ(run.facts().of_kind("admitted").size(), 1U);
}

TEST(Elastic, TheLastReplicasAreLostAndOneIsBack) {
  ElasticRun run({}, [](ElasticRun&, uint32_t slot) { return slot == 2; });
  ASSERT_TRUE(run.wait_rows(1));
  run.lose(1, 0, true);
  run.lose(2, 0);
  const RunResult result = run.wait();
  EXPECT_TRUE(result.is_ok) << result.error;
  EXPECT_EQ(run.hashes(), calm_hashes());
  EXPECT_EQ(test::flow_1(run.facts(), k_steps, 8, 4), "");
  EXPECT_EQ(run.facts().of_kind("admitted").size(), 1U);
}

TEST(Elastic, WithoutAnyReplicaTheRunEndsInTimeAndSaysWhy) {
  ElasticRun run({});
  ASSERT_TRUE(run.wait_rows(1));
  const double began = now_seconds();
  run.lose(1, 0, true);
  run.lose(2, 0);
  const RunResult result = run.wait();
  EXPECT_FALSE(result.is_ok);
  EXPECT_TRUE(result.is_loss) << "it can be resumed";
  EXPECT_GE(now_seconds() - began, 1e-3 * k_join_ms);
  for (const char* part : {"process 2 (cards [2]: actor_infer) was killed by the test",
                           "no replica was there for 1500 ms since"})
    EXPECT_NE(result.error.find(part), std::string::npos) << result.error;
}

TEST(Elastic, AProcessThatNeverJoinsAtTheStartEndsTheRun) {
  ElasticRun run({}, {}, {2});
  const RunResult result = run.wait();
  EXPECT_FALSE(result.is_ok);
  EXPECT_NE(
      result.error.find("process 2 (cards [2]: actor_infer) in phase start: it has not joined "
                        "within 1500 ms"),
      std::string::npos)
      << result.error;
}

// Another process was lost a moment before: it explains nothing.
TEST(Elastic, ALinkThatNoLossExplainsEndsTheRun) {
  ElasticRun run({});
  ASSERT_TRUE(run.wait_rows(1));
  run.lose(2, 0);
  run.fail_link(control::failure_of_link("rewards", "actor_infer@2->rewards",
                                         {Errc::timeout, "its process was lost"}));
  run.fail_link(control::failure_of_link("rewards", "actor_infer@1->rewards",
                                         {Errc::timeout, "was silent for 10000 ms"}));
  const RunResult result = run.wait();
  EXPECT_FALSE(result.is_ok);
  EXPECT_NE(result.error.find("rewards in phase link: actor_infer@1->rewards"), std::string::npos)
      << result.error;
}

TEST(Elastic, ATrainCardIsNeverDoneWithout) {
  ElasticRun run({});
  ASSERT_TRUE(run.wait_rows(1));
  run.lose(0, 0, true);
  const RunResult result = run.wait();
  EXPECT_FALSE(result.is_ok);
  EXPECT_TRUE(result.is_loss);
  EXPECT_NE(result.error.find("process 0 (cards [0]: actor_train)"), std::string::npos)
      << result.error;
}

// What an earlier attempt left behind says another name at its hello, and is refused.
TEST(Elastic, LinksNameTheAttemptOfTheRun) {
  EXPECT_NE(run_of_links("20261122-0101", 0), run_of_links("20261122-0101", 1));
}

}  // namespace
}  // namespace cohort::actors
