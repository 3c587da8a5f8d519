// What of a trajectory its group is judged by, and by which filter.
#include "actors/roles/group_sieve.hpp"

#include <gtest/gtest.h>

#include "runtime/config/train_groups.hpp"

namespace cohort::actors {
namespace {

using algorithms::GroupVerdict;
using config::FilterMetric;
using config::GroupFilter;

config::RunConfig with(FilterMetric metric) {
  config::RunConfig c;
  c.pipeline = config::Pipeline::rlvr;
  c.dynamic_sampling.filter.type = GroupFilter::std_filter;
  c.dynamic_sampling.metric = metric;
  c.rewards["answer"].type = config::RewardType::exact;
  c.rewards["long"].type = config::RewardType::overlong;
  c.rewards["other"].type = config::RewardType::exact;
  c.rewards["other"].query_filter_config.type = GroupFilter::mean_filter;
  return c;
}

proto::Trajectory answer(double right, double penalty) {
  proto::Trajectory t;
  t.tag = "answer";
  t.reward_parts = {
      {"answer", right, 0.7, ""}, {"answer/acc", 1 - right, 0, ""}, {"long", penalty, 1, ""}};
  t.score = 0.7 * right + penalty;
  return t;
}

GroupSieve::Verdict judged(const config::RunConfig& c, std::vector<proto::Trajectory> group) {
  std::vector<const proto::Trajectory*> members;
  for (const proto::Trajectory& t : group) members.push_back(&t);
  return GroupSieve(c).judge(members);
}

TEST(GroupSieve, ShapingIsNoSignalUnlessTheRewardIsAskedFor) {
  // Equal answers, one of them too long: the score without the penalty is equal to the bit.
  const std::vector<proto::Trajectory> right = {answer(1, 0), answer(1, -0.3)};
  EXPECT_EQ(judged(with(FilterMetric::score), right).reason, "every score is 0.7");
  EXPECT_EQ(judged(with(FilterMetric::reward), right).reason, "");
  EXPECT_EQ(judged(with(FilterMetric::acc), right).verdict, GroupVerdict::all_0);
  const std::vector<proto::Trajectory> mixed = {answer(1, 0), answer(0, -0.3)};
  for (FilterMetric metric : {FilterMetric::score, FilterMetric::reward, FilterMetric::acc})
    EXPECT_EQ(judged(with(metric), mixed).verdict, GroupVerdict::kept);
}

TEST(GroupSieve, WithoutAnAccuracyTheScoreCounts) {
  proto::Trajectory plain;
  plain.score = 1;
  EXPECT_EQ(judged(with(FilterMetric::acc), {plain, plain}).verdict, GroupVerdict::all_1);
}

TEST(GroupSieve, MaskedOnesHaveNoScore) {  // REWARD-3
  auto group = std::vector<proto::Trajectory>{answer(1, 0), answer(0, 0), answer(1, 0)};
  group[1].mask_reason = "rewards.answer: timeout";
  EXPECT_EQ(judged(with(FilterMetric::score), group).reason, "every score is 0.7");
  group[0].mask_reason = group[1].mask_reason;
  EXPECT_EQ(judged(with(FilterMetric::score), group).reason,
            "1 of its 3 trajectories have a score");
}

TEST(GroupSieve, ADomainMayHaveAFilterOfItsOwn) {
  const config::RunConfig c = with(FilterMetric::score);
  EXPECT_TRUE(config::has_group_filter(c));
  EXPECT_EQ(config::group_filter_of(c, "answer").type, GroupFilter::std_filter);
  EXPECT_EQ(config::group_filter_of(c, "other").type, GroupFilter::mean_filter);
  proto::Trajectory good;
  good.tag = "other";
  good.score = 0.5;
  EXPECT_EQ(judged(c, {good, good}).verdict, GroupVerdict::kept);  // its mean is inside
  good.score = 2;
  EXPECT_EQ(judged(c, {good, good}).verdict, GroupVerdict::equal);
  config::RunConfig agentic = c;
  agentic.pipeline = config::Pipeline::agentic;
  agentic.dynamic_sampling.filter.type = GroupFilter::no_filter;
  EXPECT_FALSE(config::has_group_filter(agentic)) << "domains are rlvr's";
}

TEST(GroupSieve, TheRowOfAStepCountsEachVerdict) {
  const auto numbers =
      filter_metrics({{0, GroupVerdict::kept}, {1, GroupVerdict::all_0}, {4, GroupVerdict::all_0}});
  const std::vector<std::pair<std::string, double>> expected = {
      {"filter/kept", 1},  {"filter/all_0", 2},   {"filter/all_1", 0},
      {"filter/equal", 0}, {"filter/outside", 0}, {"filter/unscored", 0}};
  EXPECT_EQ(numbers, expected);
}

}  // namespace
}  // namespace cohort::actors
