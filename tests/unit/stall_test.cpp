// The sentence that says why a run stands still, from waits that are written down here.
#include "runtime/plan/check/stall.hpp"

#include <gtest/gtest.h>

#include <random>

namespace cohort::plan {
namespace {

constexpr double k_now = 1000;

WaitEntry wait(WaitLevel level, const std::string& who, const std::string& what, double age,
               pid_t child = 0, const std::string& where = "") {
  return {level, who, what, "something", where, child, k_now - age};
}

class Stall : public ::testing::Test {
 protected:
  Stall() {
    input_.now = k_now;
    input_.after_s = 10;
  }
  ProcessWaits& process(pid_t pid, const std::string& name, ProcessState state = {'S'}) {
    input_.states[{"", pid}] = state;
    ProcessWaits process;
    process.pid = pid;
    process.name = name;
    input_.processes.push_back(process);
    return input_.processes.back();
  }
  StallInput input_;
};

TEST_F(Stall, AChildThatDoesNotAnswerIsTheCauseOfTheStepsWait) {
  process(1, "run").waits = {
      wait(WaitLevel::run, "step 12", "the trajectories of the step", 14),
      wait(WaitLevel::role, "reward math_rule", "3 rows in flight", 13.8),
      wait(WaitLevel::outside, "plugin math", "its child 4127", 13.8, 4127, "in sympy.simplify")};
  input_.states[{"", 4127}] = {'R', 1.0};
  const Diagnosis found = diagnose(input_);
  EXPECT_EQ(found.cause, StallCause::wait);
  EXPECT_EQ(found.who, "plugin math");
  EXPECT_NEAR(found.waited_s, 13.8, 1e-9);
  EXPECT_EQ(found.sentence,
            "step 12 waits 14 s for the trajectories of the step: reward math_rule waits 14 s for "
            "3 rows in flight: plugin math waits 14 s for its child 4127, in sympy.simplify, which "
            "takes 1.0 cores");
}

TEST_F(Stall, AStoppedChildAndAStoppedProcessAreNamed) {
  process(1, "run").waits = {wait(WaitLevel::run, "step 2", "the update", 20),
                             wait(WaitLevel::outside, "plugin p", "its child 9", 15, 9)};
  input_.states[{"", 9}] = {'T'};
  EXPECT_EQ(diagnose(input_).cause, StallCause::stopped);
  EXPECT_NE(diagnose(input_).sentence.find("child 9, which is stopped"), std::string::npos);

  process(7, "card process 1", {'T'});
  const Diagnosis found = diagnose(input_);
  EXPECT_EQ(found.cause, StallCause::stopped);
  EXPECT_EQ(found.pid, 7);
  EXPECT_EQ(found.sentence,
            "step 2 waits 20 s for the update: process 7 (card process 1) is stopped; kill -CONT 7 "
            "lets it go on");
}

TEST_F(Stall, AKilledAndASwappedOutProcessAreNamed) {
  process(7, "card process 0", ProcessState{});
  EXPECT_EQ(diagnose(input_).cause, StallCause::gone);
  input_.states[{"", 7}] = {'D', 0, uint64_t{10} << 20, uint64_t{500} << 20};
  const Diagnosis found = diagnose(input_);
  EXPECT_EQ(found.cause, StallCause::swapped);
  EXPECT_NE(found.sentence.find("500 of 510 MiB"), std::string::npos) << found.sentence;
}

TEST_F(Stall, AProcessWhoseMemoryComesFromADiskIsNamedWhileSomethingWaitsLong) {
  process(1, "run").waits = {wait(WaitLevel::run, "step 2", "the update", 20)};
  process(7, "card process 0", {'S', 0.1, uint64_t{10} << 20, uint64_t{5} << 20, 800});
  EXPECT_EQ(diagnose(input_).cause, StallCause::swapped);
  EXPECT_EQ(diagnose(input_).sentence,
            "step 2 waits 20 s for the update: process 7 (card process 0) waits for its memory: a "
            "disk gives it 800 pages a second; 10 MiB are in memory, 5 MiB swapped out");
  input_.states[{"", 7}].cpu = 0.9;  // it computes
  EXPECT_NE(diagnose(input_).cause, StallCause::swapped);
  input_.states[{"", 7}].cpu = 0.1;
  input_.after_s = 30;  // it loads a folder
  EXPECT_EQ(diagnose(input_).cause, StallCause::none);
}

TEST_F(Stall, ARoleThatComputesIsNoStall) {
  process(1, "run", {'S', 1.5}).waits = {
      wait(WaitLevel::run, "step 2", "the update", 300),
      wait(WaitLevel::step, "the collector of step 3", "trajectories", 200)};
  const Diagnosis found = diagnose(input_);
  EXPECT_EQ(found.cause, StallCause::none);
  EXPECT_DOUBLE_EQ(found.waited_s, 300);
  EXPECT_NE(found.sentence.find("the longest wait: step 2 waits 300 s"), std::string::npos);
}

// What an idle process waits for is the cause; what moves behind it says that it is none.
TEST_F(Stall, AnIdleRoleIsTheCauseUnlessSomethingBehindItMoves) {
  ProcessWaits& run = process(1, "run");
  run.waits = {wait(WaitLevel::step, "the collector of step 3", "trajectories", 30)};
  EXPECT_EQ(diagnose(input_).who, "the collector of step 3");
  run.waits.push_back(wait(WaitLevel::role, "reference", "its frame", 30.001));
  EXPECT_EQ(diagnose(input_).who, "reference");
  run.waits.push_back(wait(WaitLevel::link, "rollout 0", "credit of rewards", 25));
  EXPECT_EQ(diagnose(input_).who, "rollout 0");
  run.waits.push_back(wait(WaitLevel::call, "rewards", "a frame that it takes in", 25.5));
  EXPECT_EQ(diagnose(input_).who, "rewards");
  run.waits.push_back(wait(WaitLevel::outside, "plugin p", "its child 9", 2));
  EXPECT_EQ(diagnose(input_).cause, StallCause::none);
}

// -- of a cluster

TEST_F(Stall, ProcessesOfSeveralHostsAreToldApart) {
  ProcessWaits& run = process(7, "run");
  run.waits = {wait(WaitLevel::run, "step 2", "the update", 20)};
  run.host = "head";
  input_.states[{"head", 7}] = {'S'};
  ProcessWaits& card = process(7, "card process 1");  // the same number, there
  card.host = "worker-1";
  card.waits = {wait(WaitLevel::call, "actor_train", "its gradients", 19)};
  input_.states[{"worker-1", 7}] = {'S'};
  EXPECT_EQ(diagnose(input_).sentence,
            "step 2 waits 20 s for the update: actor_train on worker-1 waits 19 s for its "
            "gradients");
  input_.states[{"worker-1", 7}] = {'T'};
  EXPECT_EQ(diagnose(input_).sentence,
            "step 2 waits 20 s for the update: process 7 (card process 1) on worker-1 is stopped; "
            "kill -CONT 7 lets it go on");
}

TEST_F(Stall, ANodeThatDoesNotAnswerComesFirst) {
  process(1, "run", {'T'}).waits = {wait(WaitLevel::run, "step 2", "the update", 20)};
  input_.silent = {{"node 2 (worker-2 at 10.0.0.2)", "does not answer"}};
  const Diagnosis found = diagnose(input_);
  EXPECT_EQ(found.cause, StallCause::silent);
  EXPECT_EQ(found.who, "node 2 (worker-2 at 10.0.0.2)");
  EXPECT_EQ(found.sentence,
            "step 2 waits 20 s for the update: node 2 (worker-2 at 10.0.0.2) does not answer");
}

TEST_F(Stall, NoWaitIsNoStall) {
  const Diagnosis found = diagnose(input_);
  EXPECT_EQ(found.cause, StallCause::none);
  EXPECT_EQ(found.sentence, "nothing waits longer than 10 s");
}

// Whatever waits, for less than the bound: nobody is woken.
TEST_F(Stall, YoungWaitsAreNeverACause) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> age(0, 9.9);
  for (int round = 0; round < 500; ++round) {
    input_.processes.clear();
    ProcessWaits& run =
        process(1, "run", {"SRD"[random() % 3], 0.01 * static_cast<double>(random() % 200)});
    for (size_t i = random() % 20; i > 0; --i)
      run.waits.push_back(
          wait(static_cast<WaitLevel>(random() % 6), "somebody", "something", age(random)));
    ASSERT_EQ(diagnose(input_).cause, StallCause::none) << diagnose(input_).sentence;
  }
}

}  // namespace
}  // namespace cohort::plan
