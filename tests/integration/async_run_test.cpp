// Generation beside training: which policy plays a step, and the same bits after any death
// (docs/async.md).
#include <gtest/gtest.h>

#include <csignal>
#include <set>

#include "tests/support/recovery.hpp"

namespace cohort {
namespace {

using test::Process;
using test::TempFolder;
using Words = std::vector<std::string>;

constexpr uint64_t k_steps = 5;

/// A tiny run of one trainer and two rollouts, `depth` steps ahead.
Words one_step_off(const TempFolder& folder, const Words& more = {}, int depth = 1) {
  Words words = {"max_steps=" + std::to_string(k_steps),
                 "eval_steps=3",
                 "placement.offload=never",
                 "async.mode=one_step_off",
                 "async.depth=" + std::to_string(depth),
                 "num_gpus_per_node=3",
                 "actor_infer.device_mapping=list(range(1,3))",
                 "max_running_requests=4"};
  words.insert(words.end(), more.begin(), more.end());
  return test::tiny_run(folder, words);
}

const std::map<uint64_t, std::string>& calm_hashes() {
  static const std::map<uint64_t, std::string> hashes = [] {
    TempFolder folder;
    Process calm(one_step_off(folder), folder);
    EXPECT_EQ(calm.wait(), 0) << calm.err();
    return test::hashes(test::run_folder(calm));
  }();
  return hashes;
}

/// The versions of the tokens that were sampled for each training step.
std::map<uint64_t, std::set<uint32_t>> versions_of(const std::string& run) {
  std::map<uint64_t, std::set<uint32_t>> versions;
  for (const proto::Trajectory& t : test::trajectories_of(run + "/stream"))
    versions[t.key.step].merge(test::versions_of(t));
  return versions;
}

TEST(OneStepOff, APolicyPlaysTheStepsThatItIsMeantFor) {  // AHEAD-1, FLOW-3
  for (int depth : {1, 2}) {
    TempFolder folder;
    Process run(one_step_off(folder, {}, depth), folder);
    ASSERT_EQ(run.wait(), 0) << run.err();
    const auto versions = versions_of(test::run_folder(run));
    ASSERT_EQ(versions.size(), k_steps);
    for (const auto& [step, of] : versions) {
      const auto policy = static_cast<uint32_t>(std::max<int64_t>(0, int64_t(step) - 1 - depth));
      EXPECT_EQ(of, std::set<uint32_t>{policy}) << "step " << step << ", depth " << depth;
    }
    EXPECT_EQ(test::flow_1(test::read_stream(test::run_folder(run)), k_steps, 8, 4), "");
  }
}

TEST(OneStepOff, CardsAndProcessesChangeNoBit) {
  TempFolder one, three;
  Process single(
      one_step_off(one, {"num_gpus_per_node=2", "actor_infer.device_mapping=list(range(1,2))"}),
      one);
  Process spread(test::in_processes(one_step_off(three), 3), three);
  ASSERT_EQ(single.wait(), 0) << single.err();
  ASSERT_EQ(spread.wait(90000), 0) << spread.err();
  EXPECT_EQ(test::hashes(test::run_folder(single)), calm_hashes());
  EXPECT_EQ(test::hashes(test::run_folder(spread)), calm_hashes());
  TempFolder folder;
  Process sync(one_step_off(folder, {"async.mode=sync", "async.depth=1"}), folder);
  ASSERT_EQ(sync.wait(), 0) << sync.err();
  const auto others = test::hashes(test::run_folder(sync));
  EXPECT_EQ(others.at(1), calm_hashes().at(1));  // both by the policy of step 0
  EXPECT_NE(others.at(2), calm_hashes().at(2));
}

TEST(OneStepOff, ARolloutThatDiesChangesNoBit) {
  for (const char* point : {"rollout.turn:300:kill", "rollout.sent:6:kill"}) {
    TempFolder folder;
    const std::filesystem::path claim = folder.path() / "claim";
    Process run(test::with_failpoint(test::in_processes(one_step_off(folder), 3), point, claim),
                folder);
    ASSERT_EQ(run.wait(90000), 0) << run.err();
    ASSERT_TRUE(test::claimed_at(claim)) << "the point was never passed";
    EXPECT_EQ(test::hashes(test::run_folder(run)), calm_hashes()) << point;
    EXPECT_EQ(test::flow_1(test::read_stream(test::run_folder(run)), k_steps, 8, 4), "");
  }
}

TEST(OneStepOff, KilledAndResumedEndsWithTheSameBits) {
  for (size_t rows : {0U, 2U, 4U}) {
    TempFolder folder;
    Process victim(one_step_off(folder), folder);
    test::wait_until(
        [&] {
          const std::string run = test::any_run(folder);
          return !victim.is_running() || (!run.empty() && test::metric_rows(run).size() > rows);
        },
        60000);
    victim.send(SIGKILL);
    victim.wait();
    Process resumed(one_step_off(folder, {"resume_from_checkpoint=true"}), folder);
    ASSERT_EQ(resumed.wait(), 0) << resumed.err();
    EXPECT_EQ(test::hashes(test::run_folder(resumed)), calm_hashes()) << rows << " rows";
    // A checkpoint has the step that its policy's predecessor has played.
    const std::string ahead = test::run_folder(resumed) + "/checkpoints/step_3/ahead";
    EXPECT_TRUE(stream::Reader::open(ahead)) << ahead;
  }
}

TEST(OneStepOff, AStoppedRunGoesOnWithTheSameBits) {
  TempFolder folder;
  Process run(one_step_off(folder, {"save_steps=1000"}), folder);
  ASSERT_TRUE(test::wait_until([&] { return test::has_first_row(folder); }, 60000)) << run.err();
  run.send(SIGINT);
  ASSERT_EQ(run.wait(), 0) << run.err();
  Process resumed(one_step_off(folder, {"resume_from_checkpoint=true"}), folder);
  ASSERT_EQ(resumed.wait(), 0) << resumed.err();
  EXPECT_EQ(test::hashes(test::run_folder(resumed)), calm_hashes());
}

TEST(OneStepOff, ACheckpointThatIsFurtherAheadIsRefused) {
  TempFolder folder;
  Process run(one_step_off(folder), folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  const std::string from = test::run_folder(run) + "/checkpoints/step_3";
  Process sync(one_step_off(folder, {"async.mode=sync", "resume_from_checkpoint=" + from}), folder);
  EXPECT_EQ(sync.wait(), 1);
  EXPECT_NE(sync.err().find("was made 1 steps ahead of its optimizer, this run may be 0"),
            std::string::npos)
      << sync.err();
}

}  // namespace
}  // namespace cohort
