// Which groups a step has does not depend on the order in which the verdicts come, for steps,
// lanes, verdicts and orders by seed.
#include "runtime/plan/flow/refill.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "runtime/base/rng.hpp"

namespace cohort::tests {
namespace {

using plan::Refill;

struct DrawnStep {
  uint64_t seed = 0;
  std::vector<uint32_t> lanes;
  uint32_t batches_max = 1;
  uint64_t left_out_percent = 0;

  bool is_kept(uint32_t group) const {
    return Rng(seed).fork(group).below(100) >= left_out_percent;
  }
};

DrawnStep drawn_step(uint64_t seed) {
  Rng rng(seed);
  DrawnStep step{seed, {}, static_cast<uint32_t>(1 + rng.below(6)), rng.below(101)};
  const uint64_t lanes = 1 + rng.below(4);
  for (uint64_t i = 1 + rng.below(20); i > 0; --i)
    step.lanes.push_back(static_cast<uint32_t>(rng.below(lanes)));
  return step;
}

/// Groups end in an order of their own, each as soon as it is asked for or much later.
std::set<uint32_t> played(const DrawnStep& step, uint64_t order_seed) {
  Rng rng(order_seed);
  Refill refill(step.lanes, step.batches_max);
  std::vector<uint32_t> open;
  for (uint32_t group = 0; group < step.lanes.size(); ++group) open.push_back(group);
  std::set<uint32_t> all(open.begin(), open.end());
  while (!open.empty()) {
    std::swap(open[rng.below(open.size())], open.back());
    const uint32_t group = open.back();
    open.pop_back();
    if (step.is_kept(group)) continue;
    const auto next = refill.leave_out(group);
    EXPECT_FALSE(refill.leave_out(group)) << "told twice, it is replaced twice";
    if (!next) continue;
    EXPECT_EQ(next->lane, step.lanes[group % step.lanes.size()]);
    EXPECT_EQ(next->lane, step.lanes[next->group % step.lanes.size()]);
    EXPECT_TRUE(all.insert(next->group).second) << next->group << " is given twice";
    open.push_back(next->group);
  }
  EXPECT_EQ(refill.groups(), all.size());
  return all;
}

uint64_t refill_seed() {
  const char* text = std::getenv("COHORT_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

TEST(Refill, TheGroupsOfAStepDoNotDependOnTheOrderOfVerdicts) {  // REFILL-1, REFILL-2
  const uint64_t first = refill_seed();
  const uint64_t seeds = std::getenv("COHORT_SEED") == nullptr ? 3000 : 1;
  uint64_t full = 0, exhausted = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    SCOPED_TRACE(seed);
    const DrawnStep step = drawn_step(seed);
    const std::set<uint32_t> groups = played(step, seed * 7);
    for (uint64_t order = 1; order < 5; ++order) ASSERT_EQ(played(step, seed * 7 + order), groups);
    const size_t batch = step.lanes.size();
    const auto kept = static_cast<size_t>(
        std::ranges::count_if(groups, [&](uint32_t group) { return step.is_kept(group); }));
    ASSERT_LE(kept, batch);
    ASSERT_LT(*groups.rbegin(), batch * step.batches_max);
    ++(kept == batch ? full : exhausted);
    if (::testing::Test::HasFailure()) return;
  }
  if (seeds == 1) return;
  EXPECT_GT(full, seeds / 10);
  EXPECT_GT(exhausted, seeds / 10);
}

TEST(Refill, OneLaneIsNumberedOn) {
  Refill refill({0, 0, 0}, 3);
  EXPECT_EQ(refill.leave_out(2), (Refill::Next{3, 0}));
  EXPECT_EQ(refill.leave_out(0), (Refill::Next{4, 0}));
  EXPECT_EQ(refill.leave_out(3), (Refill::Next{5, 0}));
  EXPECT_EQ(refill.leave_out(1), (Refill::Next{6, 0}));
  EXPECT_EQ(refill.groups() - refill.left_out(), 3U);
}

TEST(Refill, EachLaneHasItsOwnSequence) {
  Refill refill({0, 1, 0}, 2);
  EXPECT_EQ(refill.leave_out(1), (Refill::Next{4, 1}));
  EXPECT_EQ(refill.leave_out(4), std::nullopt);  // lane 1 has one place, and two batches
  EXPECT_EQ(refill.leave_out(2), (Refill::Next{3, 0}));
  EXPECT_EQ(refill.leave_out(3), (Refill::Next{5, 0}));
  EXPECT_EQ(refill.wanted(), 3U);
}

}  // namespace
}  // namespace cohort::tests
