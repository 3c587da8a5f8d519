// Whose policy samples which token, as a stream has recorded it.
#include "runtime/plan/flow/recorded_schedule.hpp"

#include <gtest/gtest.h>

#include <random>

namespace cohort::plan {
namespace {

TEST(RecordedSchedule, SpansCountSampledTokensAlone) {
  const std::vector<uint32_t> versions = {0, 0, 3, 3, 3, 4, 4, 4, 5};
  const std::vector<uint8_t> mask = {0, 0, 1, 1, 0, 0, 1, 1, 1};
  EXPECT_EQ(spans_of(versions, mask), (VersionSpans{2, 3, 2, 4, 1, 5}));
  EXPECT_TRUE(spans_of(versions, std::vector<uint8_t>(9, 0)).empty());
  EXPECT_TRUE(spans_of({}, {}).empty());
}

// Played span by span, a trajectory has the versions that were recorded, token for token.
TEST(RecordedSchedule, WhoFollowsTheSpansSamplesAsRecorded) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint32_t> versions, sampled;
    std::vector<uint8_t> mask;
    uint32_t version = static_cast<uint32_t>(random() % 5);
    for (size_t i = random() % 60; i > 0; --i) {
      if (random() % 7 == 0) version += 1 + static_cast<uint32_t>(random() % 2);
      versions.push_back(version);
      mask.push_back(random() % 3 == 0 ? 0 : 1);
      if (mask.back() == 1) sampled.push_back(version);
    }
    const VersionSpans spans = spans_of(versions, mask);
    std::vector<uint32_t> played;
    while (const auto next = next_span(spans, played.size())) {
      ASSERT_GT(next->tokens, 0U);
      // A turn may end anywhere within a span.
      const size_t count = 1 + random() % next->tokens;
      played.insert(played.end(), count, next->version);
    }
    ASSERT_EQ(played, sampled) << "round " << round;
  }
}

TEST(RecordedSchedule, ATrajectoryRecordedAgainTakesTheFirstOnesPlace) {
  RecordedSchedule schedule;
  schedule.add(3, 1, 0, {4, 2});
  schedule.add(3, 1, 0, {2, 2, 2, 3});
  schedule.add_hash(3, "aa");
  EXPECT_EQ(schedule.spans(3, 1, 0), (VersionSpans{2, 2, 2, 3}));
  EXPECT_TRUE(schedule.spans(3, 1, 1).empty());
  EXPECT_EQ(schedule.trajectories(), 1U);
  EXPECT_EQ(schedule.longest(), 4U);
  EXPECT_EQ(schedule.hash(3), "aa");
  EXPECT_FALSE(schedule.hash(4));
}

}  // namespace
}  // namespace cohort::plan
