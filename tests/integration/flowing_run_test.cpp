// Rollouts that play on while policies are published (docs/async.md, fully_async): ages, losses,
// checkpoints with what was under way, an engine that is cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

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

TEST(FullyAsync, TrajectoriesGoOnOverPublishes) {  // FLOW-1, FLOW-3, FLOWING-1
  TempFolder folder;
  Process run(fully_async(folder), folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  const std::string at = test::run_folder(run);
  EXPECT_EQ(error_of(at), "");
  EXPECT_GT(spans_of(at), 0);
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
  TempFolder folder;
  Process run(fully_async(folder, {"model.vocab_size=34",
                                   "actor_infer.strategy_args."
                                   "strategy_config.tensor_parallel_size=2"}),
              folder);
  ASSERT_EQ(run.wait(90000), 0) << run.err();
  const std::string at = test::run_folder(run);
  EXPECT_EQ(error_of(at), "");
  EXPECT_GT(spans_of(at), 0);
}

}  // namespace
}  // namespace cohort::flowing_run_test
