// Rollouts that die or stand still in the middle of a run: it costs time, and nothing else.
#include "tests/support/recovery.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "tests/support/holder.hpp"

namespace cohort {
namespace {

using test::Process;
using test::TempFolder;

constexpr uint64_t k_steps = 4;

const std::vector<std::string> k_two_rollouts = {
    "num_gpus_per_node=3", "actor_infer.device_mapping=list(range(1,3))", "max_running_requests=4"};

/// The hashes of the run that nobody disturbs: no layout of cards changes them.
const std::map<uint64_t, std::string>& calm_hashes() {
  static const std::map<uint64_t, std::string> hashes = [] {
    TempFolder folder;
    Process calm(test::tiny_run(folder), folder);
    EXPECT_EQ(calm.wait(), 0) << calm.err();
    return test::hashes(test::run_folder(calm));
  }();
  return hashes;
}

struct Case {
  const char* point;  // name:count:action
  int rollouts;
};

void PrintTo(const Case& x, std::ostream* out) { *out << x.point << ", " << x.rollouts; }

class Recovery : public testing::TestWithParam<Case> {};

TEST_P(Recovery, GivesTheUndisturbedHashes) {
  TempFolder folder;
  const std::filesystem::path claim = folder.path() / "claim";
  auto more = GetParam().rollouts == 2 ? k_two_rollouts : std::vector<std::string>{};
  auto command = test::in_processes(test::tiny_run(folder, more), 1 + GetParam().rollouts);
  Process run(test::with_failpoint(command, GetParam().point, claim), folder);
  ASSERT_EQ(run.wait(90000), 0) << run.err();
  EXPECT_EQ(test::hashes(test::run_folder(run)), calm_hashes());
  const test::StreamFacts facts = test::read_stream(test::run_folder(run));
  EXPECT_EQ(test::flow_1(facts, k_steps, 8, 4), "");
  auto struck = test::claimed_at(claim);
  ASSERT_TRUE(struck) << "the point was never passed";
  const auto lost = facts.of_kind("lost");
  ASSERT_EQ(lost.size(), 1U);
  const auto took_ms = (lost.front()["time_us"].get<int64_t>() - *struck) / 1000;
  const bool is_stopped = std::string(GetParam().point).ends_with("stop");
  RecordProperty("detected_ms", static_cast<int>(took_ms));
  std::printf("%s: detected after %d ms\n", GetParam().point, static_cast<int>(took_ms));
  EXPECT_LT(took_ms, is_stopped ? 10000 : 3000);  // on a loaded machine; docs/bench.md has figures
  EXPECT_NE(lost.front()["detail"].get<std::string>().find("actor_infer"), std::string::npos);
  // Where another one lives nobody waits long for it: the run may end first.
  EXPECT_LE(facts.of_kind("restart").size(), 1U);
  EXPECT_LE(facts.of_kind("admitted").size(), 1U);
  if (GetParam().rollouts == 1) {
    EXPECT_EQ(facts.of_kind("admitted").size(), 1U);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Points, Recovery,
    testing::Values(Case{"rollout.turn:300:kill", 1},    // generate, nobody else lives
                    Case{"rollout.sent:6:kill", 2},      // generate, frames on their way
                    Case{"rollout.lease:30:kill", 2},    // evaluation
                    Case{"publish.arrived:3:kill", 2},   // between exchange and commit
                    Case{"publish.commit:2:stop", 1}));  // some serve the version, some do not

// Four losses are no accident; but somebody else can play what it does not. The run is long enough
// to see all four where processes start slowly.
TEST(RecoveryLimit, AProcessThatKeepsDyingIsDoneWithoutWhereOthersLive) {
  const std::vector<std::string> more = {"max_steps=48", "eval_steps=-1"};
  TempFolder calm_folder, folder;
  Process calm(test::tiny_run(calm_folder, more), calm_folder);
  std::vector<std::string> spread = k_two_rollouts;
  spread.insert(spread.end(), more.begin(), more.end());
  Process run(test::in_processes(test::tiny_run(folder, spread), 3), folder);
  ASSERT_TRUE(test::wait_until([&] { return test::has_first_row(folder); }, 30000)) << run.err();
  std::set<pid_t> killed;
  for (int i = 0; i < 4; ++i) {
    auto next = [&] {
      const std::vector<pid_t> holders = test::holders_of(run.pid(), 2);
      return holders.empty() || killed.contains(holders.front()) ? 0 : holders.front();
    };
    pid_t holder = 0;
    ASSERT_TRUE(test::wait_until([&] { return (holder = next()) > 0; }, 20000));
    killed.insert(holder);
    ::kill(holder, SIGKILL);
  }
  ASSERT_EQ(run.wait(90000), 0) << run.err();
  ASSERT_EQ(calm.wait(), 0) << calm.err();
  EXPECT_EQ(test::hashes(test::run_folder(run)), test::hashes(test::run_folder(calm)));
  const test::StreamFacts facts = test::read_stream(test::run_folder(run));
  EXPECT_EQ(test::flow_1(facts, 48, 8, 4), "");
  EXPECT_EQ(facts.of_kind("lost").size(), 4U);
  const auto away = facts.of_kind("away");
  ASSERT_EQ(away.size(), 1U);
  EXPECT_NE(away.front()["detail"].get<std::string>().find(
                "process 2 (cards [2]: actor_infer) is lost for the 4th time in 10 minutes, and "
                "not started again; the first: it was killed by signal 9"),
            std::string::npos)
      << away.front();
}

// Its frames are acknowledged by nobody and come again; its weights are those of step 0.
// Here two cards share its work.
TEST(RecoveryOfReference, ItBeginsAgainWithThePolicyOfStepZero) {
  const std::vector<std::string> more = {"use_kl_loss=true", "kl_loss_coef=0.1",
                                         "num_gpus_per_node=3",
                                         "reference.device_mapping=list(range(2,3))"};
  TempFolder calm_folder, folder;
  Process calm(test::tiny_run(calm_folder, more), calm_folder);
  ASSERT_EQ(calm.wait(), 0) << calm.err();
  const std::filesystem::path claim = folder.path() / "claim";
  auto two = more;
  two[2] = "num_gpus_per_node=4";
  two[3] = "reference.device_mapping=list(range(2,4))";
  Process run(test::with_failpoint(test::in_processes(test::tiny_run(folder, two), 4),
                                   "reference.computed:10:kill", claim),
              folder);
  ASSERT_EQ(run.wait(90000), 0) << run.err();
  ASSERT_TRUE(test::claimed_at(claim)) << "the point was never passed";
  EXPECT_EQ(test::hashes(test::run_folder(run)), test::hashes(test::run_folder(calm)));
  EXPECT_EQ(test::flow_1(test::read_stream(test::run_folder(run)), k_steps, 8, 4), "");
}

// The fourth loss within ten minutes is no accident: the run says which process, and how it began.
TEST(RecoveryLimit, AProcessThatKeepsDyingEndsTheRun) {
  TempFolder folder;
  auto command = test::in_processes(test::tiny_run(folder, {"max_steps=200", "eval_steps=-1"}), 2);
  command.insert(command.begin(), {"/usr/bin/env", "COHORT_FAILPOINT=rollout.lease:2:kill"});
  Process run(command, folder);
  EXPECT_EQ(run.wait(90000), 1);
  for (const char* part : {"error: process 1 (cards [1]: actor_infer) in phase supervision",
                           "4th loss in 10 minutes", "the first: it was killed by signal 9"})
    EXPECT_NE(run.err().find(part), std::string::npos) << run.err();
}

}  // namespace
}  // namespace cohort
