#include <gtest/gtest.h>

#include "runtime/plan/flow/collector.hpp"

namespace cohort::plan::plan_collector_test {
namespace {

constexpr auto k_train = TrajectoryKind::train, k_val = TrajectoryKind::val;
constexpr StepKey k_step{k_train, 3};
TrajectoryKey key(uint32_t group, uint32_t index) { return {k_train, 3, group, index}; }

TEST(Collector, AcceptsEachTrajectoryOnce) {  // FLOW-1
  Collector collector;
  ASSERT_TRUE(collector.open_step(k_step, 2, 2));
  EXPECT_EQ(collector.offer(key(0, 1)), Verdict::accepted);
  EXPECT_EQ(collector.offer(key(0, 1)), Verdict::duplicate);
  EXPECT_EQ(collector.offer(key(0, 1), 1), Verdict::duplicate);  // a re-run after a death
  EXPECT_EQ(collector.progress(k_step), (std::pair<uint64_t, uint64_t>{1, 4}));
  collector.assert_invariants();
}

TEST(Collector, GroupsCompleteInAnyOrder) {
  Collector collector;
  ASSERT_TRUE(collector.open_step(k_step, 2, 2));
  collector.offer(key(1, 1));
  collector.offer(key(1, 0));
  EXPECT_FALSE(collector.is_step_complete(k_step));
  collector.offer(key(0, 0));
  collector.offer(key(0, 1));
  EXPECT_TRUE(collector.is_step_complete(k_step));
}

TEST(Collector, ClosedStepAnswersLate) {  // FLOW-1
  Collector collector;
  ASSERT_TRUE(collector.open_step(k_step, 1, 2));
  collector.offer(key(0, 1));
  collector.offer(key(0, 0));
  auto keys = collector.close_step(k_step);
  ASSERT_TRUE(keys);
  EXPECT_EQ(*keys, (std::vector<TrajectoryKey>{key(0, 0), key(0, 1)}));
  EXPECT_EQ(collector.offer(key(0, 0)), Verdict::late);
  EXPECT_EQ(collector.close_step(k_step).error().code, Errc::not_found);
  EXPECT_EQ(collector.open_step(k_step, 1, 2).error().code, Errc::invalid_argument);
  collector.assert_invariants();
}

TEST(Collector, AStepMayGetMoreGroups) {  // FLOW-1
  Collector collector;
  EXPECT_EQ(collector.extend_step(k_step, {1}).error().code, Errc::not_found);
  ASSERT_TRUE(collector.open_step(k_step, 1, 1));
  ASSERT_EQ(collector.offer(key(0, 0)), Verdict::accepted);
  ASSERT_TRUE(collector.is_step_complete(k_step));
  EXPECT_EQ(collector.extend_step(k_step, {0}).error().code, Errc::invalid_argument);
  EXPECT_EQ(collector.extend_step(k_step, {3, 3}).error().code, Errc::invalid_argument);
  ASSERT_TRUE(collector.extend_step(k_step, {3}));
  EXPECT_FALSE(collector.is_step_complete(k_step));
  EXPECT_EQ(collector.missing(k_step, 9), std::vector<TrajectoryKey>{key(3, 0)});
  EXPECT_EQ(collector.offer(key(2, 0)), Verdict::unknown);  // a gap
  ASSERT_TRUE(collector.extend_step(k_step, {2}));
  EXPECT_EQ(collector.offer(key(2, 0)), Verdict::accepted);
  EXPECT_EQ(collector.offer(key(3, 0)), Verdict::accepted);
  EXPECT_EQ(collector.offer(key(3, 0)), Verdict::duplicate);
  collector.assert_invariants();
  EXPECT_EQ(collector.progress(k_step), (std::pair<uint64_t, uint64_t>{3, 3}));
  EXPECT_EQ(*collector.close_step(k_step),
            (std::vector<TrajectoryKey>{key(0, 0), key(2, 0), key(3, 0)}));
}

TEST(Collector, WhatWasNeverAskedForIsUnknown) {
  Collector collector;
  EXPECT_EQ(collector.offer(key(0, 0)), Verdict::unknown);
  ASSERT_TRUE(collector.open_step(k_step, 2, 2));
  EXPECT_EQ(collector.offer(key(2, 0)), Verdict::unknown);
  EXPECT_EQ(collector.offer(key(0, 2)), Verdict::unknown);
  EXPECT_EQ(collector.offer({k_train, 4, 0, 0}), Verdict::unknown);
  EXPECT_EQ(collector.offer({k_val, 3, 0, 0}), Verdict::unknown);  // another kind
}

TEST(Collector, IncompleteStepNamesWhatIsMissing) {
  Collector collector;
  ASSERT_TRUE(collector.open_step(k_step, 1, 3));
  collector.offer(key(0, 1));
  EXPECT_EQ(collector.missing(k_step, 1), std::vector<TrajectoryKey>{key(0, 0)});
  EXPECT_EQ(
      collector.close_step(k_step).error().detail,
      "collector: step 3 of kind train has 1 of 3 trajectories; missing (group 0, index 0) (group "
      "0, index 2)");
}

TEST(Collector, OpenStepsAreBoundedAndKindsAreApart) {
  Collector collector{2};
  ASSERT_TRUE(collector.open_step({k_train, 1}, 1, 1));
  ASSERT_TRUE(collector.open_step({k_val, 1}, 1, 1));
  EXPECT_EQ(collector.open_step({k_train, 2}, 1, 1).error().code, Errc::backpressure);
  ASSERT_EQ(collector.offer({k_val, 1, 0, 0}), Verdict::accepted);
  ASSERT_TRUE(collector.close_step({k_val, 1}));
  EXPECT_EQ(collector.offer({k_val, 1, 0, 0}), Verdict::late);
  EXPECT_TRUE(collector.open_step({k_train, 2}, 1, 1));
  EXPECT_EQ(collector.open_step({k_train, 9}, 0, 1).error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace cohort::plan::plan_collector_test
