#include "runtime/compute/generate/work_team.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace cohort::compute {
namespace {

TEST(WorkTeam, EveryItemOfEveryJobIsWorkedOnOnceBeforeRunReturns) {
  for (uint32_t threads : {1U, 2U, 5U}) {
    WorkTeam team(threads);
    ASSERT_EQ(team.size(), threads);
    for (int64_t count = 0; count < 400; ++count) {
      std::vector<int> touched(static_cast<size_t>(count), 0);  // not atomic: items are apart
      team.run(count, 1 + count % 7, [&](int64_t begin, int64_t end, uint32_t member) {
        EXPECT_LT(member, threads);
        for (int64_t i = begin; i < end; ++i) ++touched[static_cast<size_t>(i)];
      });
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(touched[static_cast<size_t>(i)], 1) << count;
    }
  }
}

// A member that looks for a piece of a job that is over, while the next one, a larger one, is told.
TEST(WorkTeam, ALateMemberTakesNothingOfTheNextJobTooEarly) {
  WorkTeam team(8);
  std::vector<int> touched(512, 0);
  for (int job = 1; job <= 150000; ++job) {
    const int64_t count = job % 2 == 0 ? 512 : 8;
    std::fill_n(touched.begin(), count, 0);
    team.run(count, 1, [&](int64_t begin, int64_t end, uint32_t) {
      for (int64_t i = begin; i < end; ++i) ++touched[static_cast<size_t>(i)];
    });
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(touched[static_cast<size_t>(i)], 1) << job;
  }
}

TEST(WorkTeam, PiecesAreWholeGrainsAndAMemberWorksOnOneAtATime) {
  constexpr uint32_t k_threads = 4;
  constexpr int64_t k_grain = 3, k_count = 1000;
  WorkTeam team(k_threads);
  std::vector<std::atomic<int>> busy(k_threads);
  for (int job = 0; job < 50; ++job)
    team.run(k_count, k_grain, [&](int64_t begin, int64_t end, uint32_t member) {
      EXPECT_EQ(busy[member].fetch_add(1), 0);
      EXPECT_EQ(begin % k_grain, 0);
      EXPECT_TRUE(end % k_grain == 0 || end == k_count);
      busy[member].fetch_sub(1);
    });
}

TEST(WorkTeam, AnIdleTeamEnds) {
  for (int i = 0; i < 50; ++i) WorkTeam team(3);
}

}  // namespace
}  // namespace cohort::compute
