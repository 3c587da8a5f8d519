// Who is late, and who rests.
#include "runtime/plan/flow/stragglers.hpp"

#include <gtest/gtest.h>

#include "runtime/base/rng.hpp"

namespace cohort::tests {
namespace {

using plan::GroupClock;
using plan::SlowReplicas;

TEST(GroupClock, NothingIsLateBeforeAGroupHasEnded) {  // STRAGGLER-1
  GroupClock clock({3, 1});
  clock.opened(1, 0);
  EXPECT_TRUE(clock.late(1e6).empty());
  clock.opened(2, 0);
  clock.ended(2, 10);
  EXPECT_TRUE(clock.late(30).empty());
  EXPECT_EQ(clock.late(30.1), std::vector<uint64_t>{1});
}

TEST(GroupClock, TheMedianAndTheFloorDecideAndTheOldestComesFirst) {
  GroupClock clock({2, 5});
  const double took[] = {1, 100, 2, 3, 1};
  for (uint64_t group = 0; group < 5; ++group) {
    clock.opened(group, 0);
    clock.ended(group, took[group]);
  }
  EXPECT_EQ(clock.median_s(), 2);
  clock.opened(10, 3);
  clock.opened(11, 1);
  clock.opened(12, 2);
  clock.closed(12);
  EXPECT_TRUE(clock.late(6).empty()) << "the floor is above twice the median";
  EXPECT_EQ(clock.late(6.5), std::vector<uint64_t>{11});
  EXPECT_EQ(clock.late(9), (std::vector<uint64_t>{11, 10}));
}

TEST(GroupClock, AFactorOfZeroIsNever) {
  GroupClock clock({0, 1});
  clock.opened(1, 0);
  clock.opened(2, 0);
  clock.ended(2, 1);
  EXPECT_TRUE(clock.late(1e6).empty());
}

// Against a plain account of each replica's history.
TEST(SlowReplicas, RestAfterThreeRoundsInARowForTenRounds) {  // STRAGGLER-2
  constexpr size_t k_replicas = 3;
  size_t rests = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    SlowReplicas slow(k_replicas);
    uint32_t in_row[k_replicas] = {};
    uint32_t rest[k_replicas] = {};
    for (int round = 0; round < 60; ++round) {
      std::vector<bool> has_played(k_replicas);
      bool is_outrun[k_replicas] = {};
      for (size_t r = 0; r < k_replicas; ++r) {
        EXPECT_EQ(slow.is_resting(r), rest[r] > 0);
        has_played[r] = !slow.is_resting(r) && rng.below(4) > 0;
        is_outrun[r] = has_played[r] && rng.below(3) > 0;
        if (is_outrun[r]) slow.outrun(r);
      }
      const auto resting = slow.end_round(has_played);
      std::vector<size_t> expected;
      for (size_t r = 0; r < k_replicas; ++r) {
        if (rest[r] > 0) {
          --rest[r];
        } else if (has_played[r]) {
          in_row[r] = is_outrun[r] ? in_row[r] + 1 : 0;
          if (in_row[r] < 3) continue;
          in_row[r] = 0;
          rest[r] = 10;
          expected.push_back(r);
        }
      }
      EXPECT_EQ(resting, expected);
      rests += resting.size();
    }
  }
  EXPECT_GT(rests, 100U);
}

TEST(SlowReplicas, ANewProcessBeginsAnew) {
  SlowReplicas slow(1);
  for (int round = 0; round < 3; ++round) {
    slow.outrun(0);
    slow.end_round({true});
  }
  EXPECT_TRUE(slow.is_resting(0));
  slow.renew(0);
  EXPECT_FALSE(slow.is_resting(0));
}

}  // namespace
}  // namespace cohort::tests
