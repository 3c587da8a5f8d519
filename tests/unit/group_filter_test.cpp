// Which groups carry a signal: each filter at its thresholds, and what scores are said to be.
#include "algorithms/group_filter.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace cohort::algorithms {
namespace {

using catalog::GroupFilter;
using Scores = std::vector<double>;

GroupVerdict judged(const Scores& scores, const GroupFilterOptions& options) {
  return judge_group(scores, scores.size(), options);
}

TEST(GroupFilter, KeepsWhatTheFilterSays) {
  const GroupFilterOptions none{GroupFilter::no_filter, 0, 1, 0};
  const GroupFilterOptions deviation{GroupFilter::std_filter, 0, 1, 0};
  const GroupFilterOptions half{GroupFilter::std_filter, 0, 1, 0.5};
  const GroupFilterOptions mean{GroupFilter::mean_filter, 0.25, 0.75, 0};
  struct Case {
    Scores scores;
    GroupFilterOptions options;
    GroupVerdict verdict;
  };
  const std::vector<Case> cases = {
      {{0, 0, 0}, none, GroupVerdict::kept},
      {{0, 0, 0}, deviation, GroupVerdict::all_0},
      {{1, 1, 1}, deviation, GroupVerdict::all_1},
      {{-1, -1}, deviation, GroupVerdict::equal},
      // Their mean is rounded: the deviation is 0 all the same.
      {{0.1, 0.1, 0.1}, deviation, GroupVerdict::equal},
      {{0, 1e-9}, deviation, GroupVerdict::kept},
      {{1}, deviation, GroupVerdict::kept},  // verl: a group of one has no deviation
      {{0, 1}, half, GroupVerdict::kept},    // its unbiased deviation is 0.707
      {{0, 0.5}, half, GroupVerdict::outside},
      {{0, 1}, mean, GroupVerdict::kept},
      {{0, 0.5}, mean, GroupVerdict::outside},  // the bounds are outside
      {{1, 0.5}, mean, GroupVerdict::outside},
      {{0.5, 0.5}, mean, GroupVerdict::kept},
      {{1, 1}, mean, GroupVerdict::all_1},
      {{0}, mean, GroupVerdict::all_0},
  };
  for (size_t i = 0; i < cases.size(); ++i)
    EXPECT_EQ(judged(cases[i].scores, cases[i].options), cases[i].verdict) << "case " << i;
}

TEST(GroupFilter, AGroupWithoutTwoScoresHasNothingToCompare) {  // REWARD-3
  const GroupFilterOptions deviation{GroupFilter::std_filter, 0, 1, 0};
  EXPECT_EQ(judge_group({}, 4, deviation), GroupVerdict::unscored);
  EXPECT_EQ(judge_group(Scores{1}, 4, deviation), GroupVerdict::unscored);
  EXPECT_EQ(judge_group(Scores{1, 0}, 4, deviation), GroupVerdict::kept);
  EXPECT_EQ(judge_group({}, 1, deviation), GroupVerdict::unscored);
}

TEST(GroupFilter, VerdictsHaveNames) {
  EXPECT_EQ(to_string(GroupVerdict::kept), "kept");
  EXPECT_EQ(to_string(GroupVerdict::unscored), "unscored");
  EXPECT_EQ(static_cast<size_t>(GroupVerdict::unscored) + 1, k_group_verdicts);
}

}  // namespace
}  // namespace cohort::algorithms
