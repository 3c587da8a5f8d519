// Where two records first differ, in the order of causes, and what is no difference.
#include <gtest/gtest.h>

#include <limits>

#include "tools/traj/compare.hpp"

namespace cohort::traj {
namespace {

proto::Trajectory sample() {
  proto::Trajectory x;
  x.key = {proto::TrajectoryKind::train, 3, 1, 2};
  x.tokens = {1, 2, 3, 4, 5, 6};
  x.response_mask = {0, 1, 1, 0, 1, 1};
  x.behavior_logp = {0, -1, -2, 0, -.5F, -.25F};
  x.values = {std::numeric_limits<float>::quiet_NaN(), 0, 0, 0, 0, 0};
  x.turns = {{1, 3, 0, true, true, "a", "b"}, {4, 6, 1, true, true, "c", "d"}};
  x.score = .5;
  x.reward_parts = {{"acc", .5, 1, "right"}};
  x.metrics = {{"success", 1}, {"time/env_s", 3}};
  return x;
}

TEST(Compare, SaysWhatTurnAndToken) {
  const proto::Trajectory a = sample();
  proto::Trajectory b = a;
  b.tokens[4] = 9;
  b.behavior_logp[4] = -3;  // what follows from it is not named
  b.score = 0;
  const auto found = compare(a, b);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->what, "tokens");
  EXPECT_EQ(found->turn, 1u);
  EXPECT_EQ(found->token, 4u);
  EXPECT_EQ(found->a, "5");
  EXPECT_EQ(found->b, "9");
}

TEST(Compare, FindsTheLastBitOfANumber) {
  const proto::Trajectory a = sample();
  proto::Trajectory b = a;
  b.behavior_logp[1] = std::nextafter(-1.F, 0.F);
  EXPECT_EQ(compare(a, b)->what, "behavior_logp");
  EXPECT_NE(compare(a, b)->a, compare(a, b)->b);
  b = a;
  b.reward_parts[0].value += 1e-6;
  EXPECT_EQ(compare(a, b)->what, "reward acc");
  EXPECT_FALSE(compare(a, b)->token);
  b = a;
  b.metrics[0].second = 0;
  EXPECT_EQ(compare(a, b)->what, "metric success");
}

TEST(Compare, ColumnsAndTurnsMayBeAbsent) {
  const proto::Trajectory a = sample();
  proto::Trajectory b = a;
  b.ref_logp.assign(6, -1);
  EXPECT_EQ(compare(a, b)->what, "ref_logp");
  EXPECT_EQ(compare(a, b)->a, "absent");
  b = a;
  b.turns.pop_back();
  EXPECT_EQ(compare(a, b)->what, "turns");
  b = a;
  b.reward_parts.clear();
  EXPECT_EQ(compare(a, b)->what, "names of rewards");
}

TEST(Compare, ClocksRunIdsAndAttemptsAreNoDifference) {
  const proto::Trajectory a = sample();
  proto::Trajectory b = a;
  b.run_id = "other";
  b.attempt = 2;
  b.generate_seconds = 9;
  b.env_seconds = 9;
  b.metrics[1].second = 4;
  EXPECT_FALSE(compare(a, b));
}

TEST(Compare, ResultsNameTheHashFirstAndNoReadings) {
  const auto a = nlohmann::json::parse(
      R"({"loss":0.5,"param_hash":"a","time/update_s":1,"train_tokens_per_s":2,"x":1})");
  const auto b = nlohmann::json::parse(
      R"({"loss":0.25,"param_hash":"b","time/update_s":2,"train_tokens_per_s":3})");
  const auto all = compare_results(a, b);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].what, "param_hash");
  EXPECT_EQ(all[1].what, "loss");
  EXPECT_EQ(all[1].b, "0.25");
  EXPECT_EQ(all[2].what, "x");
  EXPECT_EQ(all[2].b, "absent");
  EXPECT_TRUE(compare_results(a, a).empty());
  for (const char* name : {"orchestrator_share", "rollout/idle_ratio", "generate_tokens_per_s"})
    EXPECT_TRUE(is_reading(name)) << name;
  for (const char* name : {"loss", "actor/grad_norm", "reward/masked", "tokens"})
    EXPECT_FALSE(is_reading(name)) << name;
}

}  // namespace
}  // namespace cohort::traj
