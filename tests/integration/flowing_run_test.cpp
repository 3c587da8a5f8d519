// Rollouts that play on while policies are published (docs/async.md, fully_async): ages, losses,
// checkpoints with what was under way, an engine that is cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <deque>

#include "tests/support/recovery.hpp"

namespace cohort::flowing_run_test {
namespace {

using test::Process;
using test::TempFolder;
using Words = std::vector<std::string>;

constexpr uint64_t k_steps = 5, k_depth = 2;

/// A tiny run of one trainer and two rollouts, which play few games at once: some are under way at
/// any publish.
Words fully_async(const TempFolder& folder, const Words& more = {}) {
  Words words = {"max_steps=" + std::to_string(k_steps),
                 "eval_steps=2",
                 "save_steps=3",
                 "keep_checkpoints=100",
                 "placement.offload=never",
                 "async.mode=fully_async",
                 "async.depth=" + std::to_string(k_depth),
                 "num_gpus_per_node=3",
                 "actor_infer.device_mapping=list(range(1,3))",
                 "max_running_requests=2"};
  words.insert(words.end(), more.begin(), more.end());
  return test::tiny_run(folder, words);
}

constexpr size_t k_per_step = 32;  // trajectories

std::string error_of(const std::string& run) {
  return test::flowing_error(run, k_steps, k_per_step, k_depth);
}

/// Returns how many trajectories have tokens of several policies.
int64_t spans_of(const std::string& run) {
  const auto all = test::trajectories_of(run + "/stream");
  return std::ranges::count_if(all, [](const auto& t) { return test::versions_of(t).size() > 1; });
}

/// Returns a run in which a trajectory has tokens of several policies. Whether one has depends on
/// speed: most runs have some. Empty if none of eight has, or one fails.
std::string run_over_publishes(std::deque<TempFolder>& folders,
                               const std::vector<std::string>& more = {}) {
  for (int i = 0; i < 8; ++i) {
    TempFolder& folder = folders.emplace_back();
    Process run(fully_async(folder, more), folder);
    EXPECT_EQ(run.wait(90000), 0) << run.err();
    const std::string at = test::run_folder(run);
    if (::testing::Test::HasFailure()) return "";
    if (spans_of(at) > 0) return at;
  }
  return "";
}

TEST(FullyAsync, TrajectoriesGoOnOverPublishes) {  // FLOW-1, FLOW-3, FLOWING-1
  std::deque<TempFolder> folders;
  const std::string at = run_over_publishes(folders);
  ASSERT_NE(at, "");
  EXPECT_EQ(error_of(at), "");
  double oldest = 0;
  for (const auto& row : test::metric_rows(at)) {
    if (!row.contains("staleness/max")) continue;
    oldest = std::max(oldest, row["staleness/max"].get<double>());
    EXPECT_GE(row["staleness/spans"].get<double>(), 1);
    EXPECT_TRUE(row.contains("time/wait_for_batch_s") || row["step"] == 1) << row;
  }
  EXPECT_EQ(oldest, k_depth);
}

TEST(FullyAsync, ARolloutThatDiesLosesNothing) {
  TempFolder folder;
  const std::filesystem::path claim = folder.path() / "claim";
  Process run(test::with_failpoint(test::in_processes(fully_async(folder), 3),
                                   "rollout.turn:300:kill", claim),
              folder);
  ASSERT_EQ(run.wait(90000), 0) << run.err();
  ASSERT_TRUE(test::claimed_at(claim)) << "the point was never passed";
  const std::string at = test::run_folder(run);
  EXPECT_EQ(error_of(at), "");
}

// That a rollout goes on with what a checkpoint has begun is RolloutActorTest's matter: whether a
// game is under way at a checkpoint depends on speed.
TEST(FullyAsync, AKilledRunIsResumed) {
  TempFolder folder;
  Process victim(fully_async(folder, {"save_steps=1"}), folder);
  test::wait_until(
      [&] {
        const std::string run = test::any_run(folder);
        return !victim.is_running() || (!run.empty() && test::metric_rows(run).size() > 3);
      },
      60000);
  victim.send(SIGKILL);
  victim.wait();
  Process resumed(fully_async(folder, {"resume_from_checkpoint=true"}), folder);
  ASSERT_EQ(resumed.wait(), 0) << resumed.err();
  EXPECT_EQ(error_of(test::run_folder(resumed)), "");
}

TEST(FullyAsync, AnEngineThatIsCutIsInterrupted) {
  std::deque<TempFolder> folders;
  const std::string at = run_over_publishes(
      folders,
      {"model.vocab_size=34", "actor_infer.strategy_args.strategy_config.tensor_parallel_size=2"});
  ASSERT_NE(at, "") << "no run went on over a publish";
  EXPECT_EQ(error_of(at), "");
}

/// Returns the parameters after each step.
std::map<uint64_t, std::string> hashes_of(const std::string& run) {
  std::map<uint64_t, std::string> hashes;
  for (const auto& row : test::metric_rows(run))
    hashes[row["step"].get<uint64_t>()] = row["param_hash"].get<std::string>();
  return hashes;
}

/// Returns the tokens and versions of each trajectory of training.
std::map<std::string, std::pair<std::vector<int32_t>, std::vector<uint32_t>>> tokens_of(
    const std::string& run) {
  std::map<std::string, std::pair<std::vector<int32_t>, std::vector<uint32_t>>> tokens;
  for (const auto& t : test::trajectories_of(run + "/stream"))
    if (t.key.kind == TrajectoryKind::train)
      tokens[proto::to_string(t.key)] = {t.tokens, t.token_versions};
  return tokens;
}

// Which policy samples a token depends on speed. A run that keeps to the schedule of another has
// its tokens and parameters: on other rollouts, in other processes, with as few games at once.
TEST(FullyAsync, ARunThatKeepsToARecordedScheduleHasItsParameters) {  // FLOWING-2, SCHEDULE-1
  TempFolder one, processes;
  std::deque<TempFolder> folders;
  const std::string at = run_over_publishes(folders);
  ASSERT_NE(at, "") << "no trajectory has tokens of two policies";
  Process single(
      fully_async(one, {"async.schedule=" + at, "num_gpus_per_node=2",
                        "actor_infer.device_mapping=list(range(1,2))", "max_running_requests=1"}),
      one);
  ASSERT_EQ(single.wait(90000), 0) << single.err();
  EXPECT_EQ(hashes_of(test::run_folder(single)), hashes_of(at));
  EXPECT_EQ(tokens_of(test::run_folder(single)), tokens_of(at));
  Process spread(test::in_processes(fully_async(processes, {"async.schedule=" + at}), 3),
                 processes);
  ASSERT_EQ(spread.wait(90000), 0) << spread.err();
  EXPECT_EQ(hashes_of(test::run_folder(spread)), hashes_of(at));
  EXPECT_EQ(tokens_of(test::run_folder(spread)), tokens_of(at));
}

// Of a step that was played twice the stream has both; the run trained on the last one.
TEST(FullyAsync, TheScheduleOfARunThatWasKilledAndResumedIsThatOfItsLastAttempt) {
  TempFolder folder, again;
  Process killed(test::with_failpoint(fully_async(folder, {"save_steps=1"}),
                                      "trainer.update:6:kill", folder.path() / "claim"),
                 folder);  // after three rounds of the warm start and two steps
  killed.wait(90000);
  ASSERT_TRUE(test::claimed_at(folder.path() / "claim")) << "the point was never passed";
  Process resumed(fully_async(folder, {"resume_from_checkpoint=true"}), folder);
  ASSERT_EQ(resumed.wait(90000), 0) << resumed.err();
  const std::string at = test::run_folder(resumed);
  Process repeated(fully_async(again, {"async.schedule=" + at}), again);
  ASSERT_EQ(repeated.wait(90000), 0) << repeated.err();
  const auto hashes = hashes_of(test::run_folder(repeated));
  ASSERT_EQ(hashes.size(), k_steps + 1);
  EXPECT_EQ(hashes, hashes_of(at));
  EXPECT_EQ(tokens_of(test::run_folder(repeated)), tokens_of(at));
}

TEST(FullyAsync, AScheduleThatIsNotThereIsNamed) {
  TempFolder folder;
  Process run(fully_async(folder, {"async.schedule=/nowhere/run"}), folder);
  EXPECT_NE(run.wait(), 0);
  EXPECT_NE(run.err().find("async.schedule"), std::string::npos) << run.err();
  EXPECT_NE(run.err().find("/nowhere/run"), std::string::npos) << run.err();
}

// With another learning rate the first step's parameters differ already, and the run says so.
TEST(FullyAsync, ARunThatLeavesItsRecordSaysAtWhichStep) {
  TempFolder folder, other;
  Process recorded(fully_async(folder), folder);
  ASSERT_EQ(recorded.wait(), 0) << recorded.err();
  Process changed(fully_async(other, {"async.schedule=" + test::run_folder(recorded),
                                      "actor_train.training_args.learning_rate=3.0e-4"}),
                  other);
  ASSERT_EQ(changed.wait(90000), 0) << changed.err();
  EXPECT_NE(changed.err().find("step 1 has the parameters"), std::string::npos) << changed.err();
}

}  // namespace
}  // namespace cohort::flowing_run_test
