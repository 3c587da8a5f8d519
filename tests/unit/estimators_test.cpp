// Advantage estimators behind their rows of the catalogue: numbers computed by hand, and the rule
// that a row which is built has its function.
#include <gtest/gtest.h>

#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms::estimators_test {
namespace {

using catalog::AdvEstimator;

constexpr RewardNormOptions k_nothing{NormScope::none, NormScope::none};
constexpr double k_tolerance = 1e-6;

std::vector<double> rewards(AdvEstimator x, const std::vector<double>& scores,
                            const std::vector<uint32_t>& groups,
                            const RewardNormOptions& asked = k_nothing, bool is_rlvr = true) {
  return estimator_of(x).value().rewards({scores, groups, asked, is_rlvr});
}

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], k_tolerance) << "entry " << i;
}

TEST(Estimators, EveryBuiltRowHasItsFunctionAndNoOther) {
  const auto rows = catalog::entries(AdvEstimator{});
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(estimator_of(static_cast<AdvEstimator>(i)).has_value(), rows[i].is_built)
        << rows[i].id;
}

const std::vector<double> k_scores{1, 0, 0, 1, 0};
const std::vector<uint32_t> k_group(5, 7);

TEST(Estimators, GrpoDividesByTheDeviation) {  // sigma = .547723
  expect_near(rewards(AdvEstimator::grpo, k_scores, k_group),
              {1.095443, -.730295, -.730295, 1.095443, -.730295});
  EXPECT_EQ(rewards(AdvEstimator::grpo, k_scores, k_group, k_nothing, false), k_scores)
      << "agentic: as reward_normalization asks";
}

TEST(Estimators, DrGrpoTakesOffTheMeanAlone) {
  expect_near(rewards(AdvEstimator::dr_grpo, k_scores, k_group), {.6, -.4, -.4, .6, -.4});
  const RewardNormOptions asked{NormScope::batch, NormScope::batch};
  expect_near(rewards(AdvEstimator::dr_grpo, k_scores, k_group, asked, false),
              {.6, -.4, -.4, .6, -.4});
  // Two groups: (0 1) around .5, (2 4 9) around 5; a group of one has nothing to compare with.
  expect_near(rewards(AdvEstimator::dr_grpo, {0, 2, 1, 4, 9, 7}, {0, 1, 0, 1, 1, 2}),
              {-.5, -3, .5, -1, 4, 0});
}

// Ten times the scores are ten times the advantage, for GRPO the same one.
TEST(Estimators, DrGrpoKeepsTheScaleThatGrpoDividesAway) {
  const std::vector<double> tenfold{10, 0, 0, 10, 0};
  expect_near(rewards(AdvEstimator::dr_grpo, tenfold, k_group), {6, -4, -4, 6, -4});
  EXPECT_NEAR(rewards(AdvEstimator::grpo, tenfold, k_group)[0], 1.095443, 1e-5);
}

TEST(Estimators, RlooComparesWithTheOthers) {
  expect_near(rewards(AdvEstimator::rloo, k_scores, k_group), {.75, -.5, -.5, .75, -.5});
  expect_near(rewards(AdvEstimator::rloo, {3, 2, 4}, {0, 1, 1}), {0, -2, 2});
}

// One sequence: prompt, two answer tokens, observation, one answer token.
TEST(Estimators, AgenticReinforceDiscountsByAnswer) {
  const std::vector<int32_t> cu{0, 5};
  const std::vector<uint8_t> mask{0, 1, 1, 0, 1};
  const std::vector<double> token_rewards{0, 0, 0, 0, 2};
  const auto by_answer = *estimator_of(AdvEstimator::agentic_reinforce);
  const auto by_token = *estimator_of(AdvEstimator::reinforce);
  expect_near(by_answer.advantages({token_rewards, {cu, mask}, .5}), {0, 1, 1, 0, 2});
  expect_near(by_token.advantages({token_rewards, {cu, mask}, .5}), {.125, .25, .5, 1, 2});
}

}  // namespace
}  // namespace cohort::algorithms::estimators_test
