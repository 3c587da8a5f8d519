// The run as a machine: the order of a run, step by step, and what it does about each thing that
// goes wrong.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/run_script.hpp"

namespace cohort::tests {
namespace {

using namespace plan::run;
using Start = RunOptions::Start;

struct Generating : RunScript {
  explicit Generating(RunOptions with = RunScript::options()) : RunScript(std::move(with)) {
    tell(Started{});
    EXPECT_TRUE(answer_until_state("stepping, generating")) << state();
  }
};

size_t count(const RunScript& script, const std::string& line) {
  return static_cast<size_t>(std::ranges::count(script.lines(), line));
}

// -- the order of a run

TEST(Run, AStepGoesFromGenerateToSave) {
  RunOptions options = RunScript::options(1);
  RunScript script(options);
  script.tell(Started{});
  while (script.answer()) {
  }
  EXPECT_TRUE(are(script.lines(), {"begin init, step 0, version 0",
                                   "row 0 begins",
                                   "begin publish, step 0, version 0",
                                   "published 0",
                                   "row 0 ends",
                                   "flush",
                                   "save step_0",
                                   "prune",
                                   "row 1 begins",
                                   "ask tasks of train 1",
                                   "begin generate, step 1, version 0",
                                   "open train 1: 2 groups of 2",
                                   "lease 1 to 0: train 1, groups 0, version 0",
                                   "lease 2 to 1: train 1, groups 1, version 0",
                                   "collect train 1",
                                   "train 1 is over",
                                   "begin update, step 1, version 0",
                                   "update on train 1, to version 1",
                                   "begin publish, step 1, version 1",
                                   "published 1",
                                   "row 1 ends",
                                   "flush",
                                   "save step_1",
                                   "prune",
                                   "flush",
                                   "end: finished after 1 steps"}));
}

TEST(Run, AnEvaluationIsSampledThenGreedy) {
  RunOptions options = RunScript::options(0);
  options.eval_steps = 1;
  options.greedy_group_size = 1;
  RunScript script(options);
  script.tell(Started{});
  ASSERT_TRUE(script.answer_until_state("stepping, evaluating (admitted)"));
  const size_t before = script.lines().size();
  ASSERT_TRUE(script.answer_until_state("stepping, flushing"));
  const std::vector<std::string> lines(script.lines().begin() + static_cast<ptrdiff_t>(before),
                                       script.lines().end());
  EXPECT_TRUE(
      are(lines,
          {"begin evaluate, step 0, version 0", "open val 0: 2 groups of 2",
           "lease 1 to 0: val 0, groups 0, version 0", "lease 2 to 1: val 0, groups 1, version 0",
           "collect val 0", "val 0 is over", "ask tasks of val_greedy 0",
           "open val_greedy 0: 2 groups of 1", "lease 3 to 0: val_greedy 0, groups 0, version 0",
           "lease 4 to 1: val_greedy 0, groups 1, version 0", "collect val_greedy 0",
           "val_greedy 0 is over", "row 0 ends", "flush"}));
}

TEST(Run, TheLossOfHeldOutRowsIsAskedOfTheTrainer) {
  RunOptions options = RunScript::options(1);
  options.eval_steps = 1;
  options.measures_loss = true;
  RunScript script(options);
  script.tell(Started{});
  ASSERT_TRUE(script.answer_until_state("stepping, evaluating (admitted)"));
  const size_t before = script.lines().size();
  ASSERT_TRUE(script.answer_until_state("stepping, flushing"));
  const std::vector<std::string> lines(script.lines().begin() + static_cast<ptrdiff_t>(before),
                                       script.lines().end());
  EXPECT_TRUE(are(lines, {"begin evaluate, step 0, version 0", "open val 0: 2 groups of 2",
                          "lease 1 to 0: val 0, groups 0, version 0",
                          "lease 2 to 1: val 0, groups 1, version 0", "collect val 0",
                          "val 0 is over", "begin update, step 0, version 0",
                          "update on val 0, to version 0", "row 0 ends", "flush"}));
  ASSERT_TRUE(script.answer_until([&] { return script.end() != nullptr; }));
  EXPECT_EQ(script.run().version(), 1U);
  EXPECT_EQ(script.end()->steps, 1U);
}

TEST(Run, TheSupervisedStepsAreSpreadOverItsRounds) {
  RunOptions options = RunScript::options(0);
  options.warm_steps = 3;
  options.warm_rounds = 2;
  options.warm_batch = 4;
  RunScript script(options);
  script.tell(Started{});
  while (script.answer()) {
  }
  EXPECT_TRUE(contains(script.lines(), "ask tasks of warm_start 0, 4 groups"));
  EXPECT_TRUE(contains(script.lines(), "ask tasks of warm_start 1, 8 groups"));
  EXPECT_EQ(count(script, "begin update, step 0, version 0"), 1U);  // once for all rounds
  EXPECT_TRUE(contains(script.lines(), "update on warm_start 1, to version 1"));
  EXPECT_EQ(script.lines().back(), "end: finished after 0 steps");
}

TEST(Run, RowsThatTheReferenceReadsAreHandedOutInItsPhase) {
  RunOptions options = RunScript::options(1);
  options.eval_steps = 1;
  options.measures_loss = options.plays_in_reference = true;
  RunScript script(options);
  script.tell(Started{});
  ASSERT_TRUE(script.answer_until([&] { return script.end() != nullptr; }));
  EXPECT_EQ(count(script, "begin reference, step 0, version 0"), 1U);  // held-out rows
  EXPECT_EQ(count(script, "begin reference, step 1, version 0"), 1U);  // those that train
  EXPECT_EQ(count(script, "begin reference, step 1, version 1"), 1U);
  for (const char* other : {"begin generate", "begin evaluate"})
    for (const std::string& line : script.lines()) EXPECT_FALSE(line.starts_with(other)) << line;
}

TEST(Run, AReferenceThatTakesTurnsHasItsOwnPhase) {
  RunOptions options = RunScript::options(1);
  options.has_reference_phase = true;
  Generating script(options);
  while (script.waits<Lease>()) script.tell(LeaseEnded{script.take<Lease>().number, 2, 20});
  EXPECT_EQ(script.lines().back(), "begin reference, step 1, version 0");
  script.tell(PhaseDone{plan::PhaseKind::reference});
  EXPECT_EQ(script.lines().back(), "collect train 1");
}

TEST(Run, AResumedRunPublishesAndGoesOn) {
  RunOptions options = RunScript::options(2);
  options.start = Start::resumed;
  RunScript script(options);
  script.tell(Started{});
  ASSERT_TRUE(script.answer_until_state("stepping, generating"));
  EXPECT_TRUE(are(
      script.lines(),
      {"begin init, step 0, version 0", "load the last", "begin publish, step 1, version 1",
       "published 1", "row 2 begins", "ask tasks of train 2", "begin generate, step 2, version 1",
       "open train 2: 2 groups of 2", "lease 1 to 0: train 2, groups 0, version 1",
       "lease 2 to 1: train 2, groups 1, version 1"}));
}

TEST(Run, AFrozenReferenceIsPublishedBeforeTheLastPolicy) {
  RunOptions options = RunScript::options(2);
  options.start = Start::resumed_frozen;
  RunScript script(options);
  script.tell(Started{});
  ASSERT_TRUE(script.answer_until_state("stepping, generating"));
  EXPECT_TRUE(
      are(std::vector<std::string>(script.lines().begin(), script.lines().begin() + 7),
          {"begin init, step 0, version 0", "load the first", "begin publish, step 0, version 0",
           "published 0", "load the last", "begin publish, step 1, version 1", "published 1"}));
}

TEST(Run, AResumedSupervisedStartGoesOnWithItsRound) {
  RunOptions options = RunScript::options(1);
  options.start = Start::resumed;
  options.warm_steps = options.warm_rounds = 4;
  options.warm_batch = 2;
  RunScript script(options);
  script.tell(Started{});
  script.answer();
  script.take<Load>();
  script.tell(Loaded{Cursor{true, 0, 0, 3}});
  EXPECT_EQ(script.lines().back(), "ask tasks of warm_start 3, 2 groups");
  ASSERT_TRUE(script.answer_until_state("warming, generating"));
  EXPECT_TRUE(contains(script.lines(), "begin update, step 0, version 0"));
}

TEST(Run, AStopFinishesAndSavesTheStep) {
  RunOptions options = RunScript::options(5);
  options.save_steps = 0;
  options.eval_steps = 3;
  Generating script(options);
  script.tell(StopAsked{});
  while (script.answer()) {
  }
  EXPECT_EQ(count(script, "save step_1"), 1U);
  EXPECT_TRUE(contains(script.lines(), "ask tasks of val 1"));
  EXPECT_EQ(script.lines().back(), "end: stopped after 1 steps");
}

TEST(Run, ARunWithoutEndGoesOnUntilAStop) {
  for (const uint32_t ahead : {0u, 1u}) {
    RunOptions options = RunScript::options(k_no_end);
    options.save_steps = 2;
    options.steps_ahead = ahead;
    RunScript script(options);
    script.tell(Started{});
    ASSERT_TRUE(script.answer_until([&] { return count(script, "row 5 ends") == 1; }));
    EXPECT_EQ(count(script, "save step_3"), 0U);
    EXPECT_EQ(count(script, "save step_4"), 1U);
    script.tell(StopAsked{});
    while (script.answer()) {
    }
    EXPECT_TRUE(fits(script.lines().back(), "end: stopped after *")) << script.lines().back();
  }
}

TEST(Run, AStopInTheSupervisedStartSavesItsRound) {
  RunOptions options = RunScript::options(5);
  options.warm_steps = options.warm_rounds = 4;
  options.warm_batch = 2;
  RunScript script(options);
  script.tell(Started{});
  ASSERT_TRUE(script.answer_until_state("warming, updating"));
  script.tell(StopAsked{});
  while (script.answer()) {
  }
  EXPECT_EQ(count(script, "save warm_1"), 1U);
  EXPECT_EQ(script.lines().back(), "end: stopped after 0 steps");
}

// -- leases

TEST(Run, ALateReportOfALostReplicaChangesNothing) {  // LEASE-1
  Generating script;
  const auto lost = script.take<Lease>();
  script.tell(CardsLost{{1}, "process 1 was killed"});
  EXPECT_TRUE(are(script.tell(LeaseEnded{lost.number, 2, 20}), {}));
  EXPECT_TRUE(are(script.tell(LeaseFailed{lost.number, {Errc::closed, "gone"}}), {}));
}

TEST(Run, WhatALostReplicaHadIsPlayedByTheOther) {
  Generating script;
  script.take<Lease>();
  script.tell(CardsLost{{1}, "process 1 was killed"});
  const auto question = script.take<AskRecorded>();
  // Trajectory 1 of group 0 is in the stream.
  EXPECT_TRUE(are(script.tell(Recorded{question.question, false, {{0, 1}}}),
                  {"note requeue",
                   "lease 3 to 1: train 1, groups 0, version 0, attempt 1, "
                   "only 0"}));
  while (script.answer()) {
  }
  EXPECT_EQ(script.lines().back(), "end: finished after 2 steps");
}

TEST(Run, AHungAnswerIsJudged) {
  Generating script;
  const auto lease = script.take<Lease>();
  EXPECT_TRUE(are(script.tell(LeaseFailed{lease.number, {Errc::timeout, "no answer"}}),
                  {"judge card 1: hung", "*wake at*"}));
}

TEST(Run, TheFirstToEndAGroupHasPlayedIt) {
  RunOptions options = RunScript::options();
  options.stragglers = {3, 1};
  Generating script(options);
  const auto slow = script.take<Lease>();
  script.pass(0.1);
  script.tell(LeaseEnded{script.take<Lease>().number, 2, 20});
  script.pass(2);
  EXPECT_TRUE(are(script.tell(TimePassed{}),
                  {"note hedge", "*lease 3 to 1: train 1, groups 0*", "*wake at*"}));
  const auto lines = script.tell(LeaseEnded{script.take<Lease>().number, 2, 20});
  EXPECT_TRUE(contains(lines, "cancel lease 1 at 0"));
  EXPECT_TRUE(contains(lines, "collect train 1"));
  EXPECT_TRUE(are(script.tell(LeaseFailed{slow.number, {Errc::cancelled, "another"}}), {}));
}

TEST(Run, APlantedCancelNamesNoLease) {
  RunOptions options = RunScript::options();
  options.stragglers = {3, 1};
  options.plant = plan::Plant::cancel_by_group;
  Generating script(options);
  script.take<Lease>();
  script.pass(0.1);
  script.tell(LeaseEnded{script.take<Lease>().number, 2, 20});
  script.pass(2);
  script.tell(TimePassed{});
  EXPECT_TRUE(
      contains(script.tell(LeaseEnded{script.take<Lease>().number, 2, 20}), "cancel lease 0 at 0"));
}

TEST(Run, AStandstillIsPingedThenJudged) {
  RunOptions options = RunScript::options();
  options.group_timeout_s = 8;
  Generating script(options);
  const auto tick = [&] {
    script.pass(2);
    return script.tell(TimePassed{});
  };
  EXPECT_TRUE(are(tick(), {"ping 0", "ping 1", "*wake at*"}));
  const auto first = script.take<Ping>();
  script.tell(Pong{first.number, 7});  // replica 0 gets on
  tick();
  tick();
  tick();
  const auto lines = tick();
  EXPECT_TRUE(contains(lines, "judge card 2: hung"));
  EXPECT_FALSE(contains(lines, "judge card 1: hung"));
}

TEST(Run, ALeaseIsSplitBeforeItsMessageIsTooLarge) {
  RunOptions options = RunScript::options(1);
  options.eval_steps = 1;
  options.cards = {1};
  RunScript script(options);
  script.groups = 5000;
  script.tell(Started{});
  ASSERT_TRUE(script.answer_until_state("stepping, evaluating (generating)"));
  size_t groups = 0;
  size_t leases = 0;
  while (script.waits<Lease>()) {
    const auto lease = script.take<Lease>();
    EXPECT_LE(lease.groups.size() * 24, k_lease_bytes_max);
    groups += lease.groups.size();
    ++leases;
  }
  EXPECT_EQ(groups, 5000U);
  EXPECT_GT(leases, 1U);
}

TEST(Run, AGroupThatNoLeaseHoldsIsSplitToo) {
  Round round{{TrajectoryKind::train, 1}, {{0, {"Lake", 0, "Lake/0"}}}, 30000, plan::Dispatcher({}),
              plan::Suspects(1),          plan::GroupClock({})};
  plan::DispatchPart part{0, 0, {}};
  for (uint32_t i = 0; i < 30000; ++i) part.indices.push_back(i);
  const auto leases = pack_leases(round, {part});
  ASSERT_GT(leases.size(), 1U);
  uint32_t next = 0;
  for (const auto& lease : leases)
    for (uint32_t index : lease[0].indices) EXPECT_EQ(index, next++);
  EXPECT_EQ(next, 30000U);
}

// -- replicas

TEST(Run, IfNobodyIsLeftTheVersionIsPublishedAgain) {
  Generating script;
  script.take<Lease>();
  script.take<Lease>();
  script.tell(CardsLost{{1, 2}, "both were killed"});
  script.tell(Recorded{script.take<AskRecorded>().question, false, {}});
  EXPECT_EQ(script.lines().back(), "begin publish, step 1, version 0");
  script.tell(CardsBack{{1}, {}});
  script.take<BeginPhase>();
  EXPECT_TRUE(are(script.tell(PhaseDone{plan::PhaseKind::publish, {1}}),
                  {"note admitted", "begin generate, step 1, version 0"}));
  script.take<BeginPhase>();
  EXPECT_TRUE(contains(script.tell(PhaseDone{plan::PhaseKind::generate}),
                       "*lease 3 to 0: train 1, groups 0, version 0, attempt 1*"));
}

TEST(Run, OneThatIsBackGetsWorkOnceAPublishHasServedIt) {  // PLACE-5, LEASE-2
  RunOptions options = RunScript::options();
  options.eval_steps = 1;
  Generating script(options);
  script.take<Lease>();
  script.tell(CardsLost{{1}, "process 1 was killed"});
  script.tell(CardsBack{{1}, {}});
  EXPECT_EQ(script.run().players().standing(0), Players::Standing::back);
  script.tell(Recorded{script.take<AskRecorded>().question, false, {}});
  EXPECT_TRUE(contains(script.lines(), "*to 1: train 1, groups 0, version 0, attempt 1*"));
  ASSERT_TRUE(script.answer_until_state("stepping, evaluating (generating)"));
  EXPECT_TRUE(contains(script.lines(), "note admitted"));
  EXPECT_EQ(script.run().players().standing(0), Players::Standing::serving);
}

TEST(Run, ALeavingReplicaPlaysWhatItHas) {
  Generating script;
  EXPECT_TRUE(are(script.tell(LeaveAsked{7, {1}, "rescale", 60}), {"note leave", "*wake at*"}));
  EXPECT_TRUE(contains(script.tell(LeaseEnded{script.take<Lease>().number, 2, 20}),
                       "answer leave 7: none"));
}

TEST(Run, ALeaveIsAnsweredWhenItsTimeIsOver) {
  Generating script;
  script.tell(LeaveAsked{7, {1}, "rescale", 60});
  script.pass(60);
  EXPECT_TRUE(contains(script.tell(TimePassed{}), "answer leave 7: none"));
}

TEST(Run, TheLastServingReplicaMayNotLeave) {
  Generating script;
  EXPECT_TRUE(
      are(script.tell(LeaveAsked{7, {1, 2}, "rescale", 60}), {"answer leave 7: invalid argument"}));
}

TEST(Run, AGroupThatKillsIsPlayedAloneThenQuarantined) {
  RunOptions options = RunScript::options(1);
  Generating script(options);
  const auto kill = [&](uint32_t card) {
    std::erase_if(script.all, [](const auto&) { return false; });
    script.tell(CardsLost{{card}, "killed"});
    script.tell(CardsBack{{card}, {}});
    script.tell(Recorded{script.take<AskRecorded>().question, false, {{1, 0}, {1, 1}}});
  };
  // Group 0 is on replica 0; group 1 ends on replica 1 at once.
  const auto first = script.take<Lease>();
  EXPECT_EQ(first.groups, std::vector<uint32_t>{0});
  script.tell(LeaseEnded{script.take<Lease>().number, 2, 20});
  kill(1);
  EXPECT_EQ(script.take<Lease>().replica, 1U);
  kill(2);
  EXPECT_TRUE(contains(script.lines(), "note suspects"));
  const auto revive = [&] {
    script.take<BeginPhase>();
    script.tell(PhaseDone{plan::PhaseKind::publish, {1, 2}});
    script.take<BeginPhase>();
    script.tell(PhaseDone{plan::PhaseKind::generate});
  };
  revive();
  EXPECT_TRUE(contains(script.lines(), "*: alone*"));
  kill(script.take<Lease>().replica + 1);
  kill(script.take<Lease>().replica + 1);
  EXPECT_EQ(count(script, "quarantine Lake/0"), 1U);
  EXPECT_EQ(count(script, "judge card 1: pardon") + count(script, "judge card 2: pardon"), 2U);
  script.tell(Masked{{TrajectoryKind::train, 1}, 0});
  while (script.answer()) {
  }
  EXPECT_EQ(script.lines().back(), "end: finished after 1 steps");
}

TEST(Run, AQuarantinedPromptIsMasked) {
  RunOptions options = RunScript::options(1);
  options.quarantined = {{"Lake/1", 9}};
  Generating script(options);
  EXPECT_TRUE(contains(script.lines(), "mask group 1 of train 1: quarantined since step 9"));
  while (script.answer()) {
  }
  EXPECT_FALSE(contains(script.lines(), "*groups 1*"));
  EXPECT_EQ(script.lines().back(), "end: finished after 1 steps");
}

// -- the first cause

TEST(Run, AFailureThatIsToldEndsTheRun) {
  Generating script;
  EXPECT_TRUE(are(script.tell(FailureTold{{"rewards", "score", "broken"}}),
                  {"end: failed after 0 steps: rewards in phase score: broken"}));
  EXPECT_TRUE(are(script.tell(StopAsked{}), {}));
}

TEST(Run, AFailedCommandEndsTheRunInItsPhase) {
  Generating script;
  EXPECT_EQ(script.tell(CommandFailed{"actor_train", {Errc::compute, "NaN"}}).back(),
            "end: failed after 0 steps: actor_train in phase generate: compute: NaN");
}

TEST(Run, AConsequenceWaitsForItsCause) {
  Generating script;
  EXPECT_TRUE(
      are(script.tell(CommandFailed{"actor_train", {Errc::closed, "gone"}}), {"*wake at*"}));
  EXPECT_TRUE(are(script.tell(FailureTold{{"process 2", "supervision", "was killed", false, true}}),
                  {"end: failed after 0 steps: process 2 in phase supervision: was killed"}));
  ASSERT_NE(script.end(), nullptr);
  EXPECT_TRUE(script.end()->is_loss);
}

TEST(Run, AConsequenceWithoutACauseEndsTheRun) {
  Generating script;
  script.tell(CommandFailed{"actor_train", {Errc::closed, "gone"}});
  script.pass(0.5);
  EXPECT_TRUE(fits(script.tell(TimePassed{}).back(), "*actor_train in phase generate*"));
}

TEST(Run, AnErrorOfALostReplicaIsExplained) {
  Generating script;
  const auto lease = script.take<Lease>();
  script.tell(LeaseFailed{lease.number, {Errc::closed, "gone"}});
  script.tell(CardsLost{{1}, "process 1 was killed"});
  script.pass(1);
  script.tell(TimePassed{});
  EXPECT_EQ(script.end(), nullptr);
}

TEST(Run, AnErrorOfALivingReplicaIsNot) {
  Generating script;
  script.tell(LeaseFailed{script.take<Lease>().number, {Errc::compute, "NaN"}});
  script.pass(1);
  EXPECT_TRUE(fits(script.tell(TimePassed{}).back(),
                   "*actor_infer (card 1) in phase generate: compute: NaN*"));
}

TEST(Run, AToldConsequenceIsExplainedByALossAroundIt) {
  Generating script;
  const Failure failure{"reference", "supervision", "the actor died", true};
  script.tell(FailureTold{failure});
  script.pass(0.4);
  script.tell(CardsLost{{9}, "process 3 was killed"});
  script.pass(0.2);
  script.tell(TimePassed{});
  EXPECT_EQ(script.end(), nullptr);
  script.pass(10);
  script.tell(FailureTold{failure});
  script.pass(1);
  EXPECT_TRUE(fits(script.tell(TimePassed{}).back(), "*reference in phase supervision*"));
}

TEST(Run, ThreeStepsWithoutAScoreEndTheRun) {
  RunOptions options = RunScript::options(5);
  RunScript script(options);
  script.tell(Started{});
  script.tell(Noticed{"rewards", "the judge is away"});
  while (script.end() == nullptr) {
    ASSERT_TRUE(script.answer_until([&] { return script.waits<Collect>(); }));
    script.tell(Collected{script.take<Collect>().round, 1});
  }
  EXPECT_EQ(
      script.end()->error,
      "rewards in phase score: every trajectory of 3 steps in a row is masked; the last word: "
      "rewards: the judge is away");
  EXPECT_EQ(script.end()->steps, 2U);
}

}  // namespace
}  // namespace cohort::tests
