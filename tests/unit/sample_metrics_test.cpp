// verl's held-out metrics against every draw there is.
#include "algorithms/sample_metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace cohort::algorithms::sample_metrics_test {
namespace {

/// Mean and deviation of max (or min) over all n^k draws with replacement.
DrawMoments by_enumeration(const std::vector<double>& scores, uint32_t k, bool is_best) {
  size_t draws = 1;
  for (uint32_t i = 0; i < k; ++i) draws *= scores.size();
  double mean = 0;
  double square = 0;
  for (size_t draw = 0; draw < draws; ++draw) {
    double value = scores[draw % scores.size()];
    for (size_t rest = draw, i = 0; i < k; ++i, rest /= scores.size()) {
      double each = scores[rest % scores.size()];
      value = is_best ? std::max(value, each) : std::min(value, each);
    }
    mean += value / static_cast<double>(draws);
    square += value * value / static_cast<double>(draws);
  }
  return {mean, std::sqrt(std::max(0.0, square - mean * mean))};
}

TEST(SampleMetrics, BestAndWorstAreTheMeansOverAllDraws) {
  for (const std::vector<double>& scores :
       {std::vector<double>{0, 1, 0, 0.5}, {-1, 1, 1}, {0.25}, {3, 3, 3, 3, 3}})
    for (uint32_t k : {1U, 2U, 3U, 4U}) {
      DrawMoments best = best_of(scores, k);
      DrawMoments worst = worst_of(scores, k);
      EXPECT_NEAR(best.mean, by_enumeration(scores, k, true).mean, 1e-12);
      EXPECT_NEAR(best.std, by_enumeration(scores, k, true).std, 1e-6);
      EXPECT_NEAR(worst.mean, by_enumeration(scores, k, false).mean, 1e-12);
      EXPECT_NEAR(worst.std, by_enumeration(scores, k, false).std, 1e-6);
    }
}

TEST(SampleMetrics, TheMajorityOfManyDrawsIsTheAnswerThatIsThereMostOften) {
  PromptScores prompt{"s", {0, 1, 1, 1, 0}, {"7", "18", "18", "18", "9"}};
  EXPECT_GT(majority_of(prompt, 64).mean, 0.97);
  // One draw is any of the five.
  EXPECT_NEAR(majority_of(prompt, 1).mean, 0.6, 0.06);
  EXPECT_EQ(majority_of(prompt, 5).mean, majority_of(prompt, 5).mean) << "a fixed generator";
}

TEST(SampleMetrics, NamesAreVerls) {
  std::vector<PromptScores> prompts = {{"openai/gsm8k", {1, 0, 1, 1}, {"1", "2", "1", "1"}},
                                       {"openai/gsm8k", {0, 0, 0, 0}, {"5", "6", "7", "8"}},
                                       {"other", {1}, {}}};
  auto list = sample_metrics(prompts, "acc");
  std::map<std::string, double> metrics(list.begin(), list.end());
  EXPECT_DOUBLE_EQ(metrics.at("val-core/openai/gsm8k/acc/mean@4"), 0.375);
  EXPECT_DOUBLE_EQ(metrics.at("val-aux/openai/gsm8k/acc/std@4"), 0.25);
  EXPECT_NEAR(metrics.at("val-core/openai/gsm8k/acc/best@4/mean"), (1 - std::pow(0.25, 4)) / 2,
              1e-12);
  EXPECT_NEAR(metrics.at("val-aux/openai/gsm8k/acc/best@2/mean"), (1 - 1.0 / 16) / 2, 1e-12);
  EXPECT_TRUE(metrics.contains("val-core/openai/gsm8k/acc/maj@4/mean"));
  EXPECT_TRUE(metrics.contains("val-aux/openai/gsm8k/acc/worst@4/mean"));
  EXPECT_DOUBLE_EQ(metrics.at("val-core/other/acc/mean@1"), 1);
  EXPECT_FALSE(metrics.contains("val-core/other/acc/best@1/mean"));
}

}  // namespace
}  // namespace cohort::algorithms::sample_metrics_test
