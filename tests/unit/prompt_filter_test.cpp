#include "runtime/tasks/prompt_filter.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace cohort::tasks {
namespace {

std::vector<int32_t> tokens(size_t count) {
  std::vector<int32_t> result(count);
  std::iota(result.begin(), result.end(), 0);
  return result;
}

TEST(FitPrompt, KeepsTheEndsThatTheNameSays) {
  auto fit = [](size_t max, Truncation truncation) {
    return *fit_prompt(tokens(8), max, truncation, "row");
  };
  using Tokens = std::vector<int32_t>;
  EXPECT_EQ(fit(3, Truncation::left), (Tokens{5, 6, 7}));
  EXPECT_EQ(fit(3, Truncation::right), (Tokens{0, 1, 2}));
  EXPECT_EQ(fit(4, Truncation::middle), (Tokens{0, 1, 6, 7}));
  EXPECT_EQ(fit(5, Truncation::middle), (Tokens{0, 1, 5, 6, 7}));  // the odd one is at the end
  EXPECT_EQ(fit(1, Truncation::middle), (Tokens{7}));
  for (Truncation truncation :
       {Truncation::error, Truncation::left, Truncation::right, Truncation::middle}) {
    EXPECT_EQ(fit(8, truncation), tokens(8));
    EXPECT_EQ(fit(9, truncation), tokens(8));
  }
}

TEST(FitPrompt, RefusesByNameAndNumbers) {
  const Error error = fit_prompt(tokens(600), 512, Truncation::error, "train.jsonl:17").error();
  EXPECT_EQ(error.code, Errc::config);
  EXPECT_TRUE(error.detail.starts_with(
      "train.jsonl:17: the prompt has 600 tokens, more than the 512 allowed"))
      << error.detail;
  EXPECT_EQ(fit_prompt(tokens(1), 0, Truncation::left, "r").error().code, Errc::invalid_argument);
}

TEST(FitPrompt, KnowsTheFourNames) {
  EXPECT_EQ(*truncation_of("error"), Truncation::error);
  EXPECT_EQ(*truncation_of("left"), Truncation::left);
  EXPECT_EQ(*truncation_of("right"), Truncation::right);
  EXPECT_EQ(*truncation_of("middle"), Truncation::middle);
  EXPECT_EQ(truncation_of("Left").error().code, Errc::config);
}

}  // namespace
}  // namespace cohort::tasks
