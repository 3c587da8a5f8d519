// Numbers of verl's formulas in f64 and ROLL's by hand, on host spans (docs/algorithms.md).
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "algorithms/advantage.hpp"
#include "algorithms/kl.hpp"
#include "algorithms/reward_norm.hpp"
#include "algorithms/schedule.hpp"

namespace cohort::algorithms::algorithms_test {
namespace {

using catalog::NormMethod;

constexpr double k_tolerance = 1e-6;  // the golden numbers are rounded to 1e-6
const double k_nan = std::numeric_limits<double>::quiet_NaN();

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], k_tolerance) << "entry " << i;
}

// ---- verl's formulas ------------------------------------------------------------

TEST(Whiten, GoldenNumbersAtLiveTokens) {  // of verl's advantages
  const std::vector<uint8_t> mask{0, 0, 1, 1, 1, 0, 0, 1, 1, 0, 0};
  const std::pair<std::vector<double>, std::vector<double>> cases[] = {
      {{-2.6, -3.7, -4.8, -5.9, -8}, {1.154033, .625101, .096169, -.432762, -1.442541}},
      {{-1.647956, -2.868640, -4.155917, -5.514, -8},
       {1.134677, .638116, .114465, -.437989, -1.449268}},
      {{-1.514873, -2.275252, -3.214800, -4.52, -8},
       {.937616, .639327, .270752, -.241264, -1.606432}},
  };
  for (const auto& [raw, whitened] : cases) {
    std::vector<double> white(mask.size(), k_nan), live;
    for (size_t t = 0, next = 0; t < mask.size(); ++t)
      if (mask[t] != 0) white[t] = raw[next++];
    whiten(white, mask);
    for (size_t t = 0; t < mask.size(); ++t)
      if (mask[t] != 0)
        live.push_back(white[t]);
      else
        EXPECT_EQ(white[t], 0);
    expect_near(live, whitened);
  }
}

TEST(Whiten, DividesByTheCountAndALittleAsVerl) {
  std::vector<double> equal(6, 1);
  whiten(equal, std::vector<uint8_t>(6, 1));
  for (double x : equal) EXPECT_NEAR(x, 1e-4 / 6, 1e-9);
}

TEST(Kl, GoldenNumbers) {
  const double d[] = {-1, -.5, .5, 1, 25, -25};
  const double k3[] = {.367879, .106531, .148721, .718282, 10, 10};
  for (size_t i = 0; i < std::size(d); ++i)
    EXPECT_NEAR(kl_estimate(KlKind::k3, 0, d[i]), k3[i], k_tolerance);
  EXPECT_NEAR(kl_estimate(KlKind::mse, 0, .5), .125, k_tolerance);
  EXPECT_EQ(kl_estimate(KlKind::kl, -1, -3), 2);
  EXPECT_EQ(kl_estimate(KlKind::abs, -3, -1), 2);
}

// ---- ROLL ----------------------------------------------------------------------

TEST(RewardNorm, RollMethods) {
  const std::vector<double> scores{1, 0, 0, 1, 5, 5};
  const std::vector<uint32_t> groups{2, 2, 9, 9, 4, 4};
  const double unit = .5 / (std::sqrt(.5) + 1e-6);
  auto norm = [&](NormMethod method, NormScope scope = NormScope::group) {
    return agentic_reward_norm(scores, groups, reward_norm_options(scope, method));
  };
  expect_near(norm(NormMethod::identity), scores);
  expect_near(norm(NormMethod::mean), {.5, -.5, -.5, .5, 0, 0});
  expect_near(norm(NormMethod::mean_std), {unit, -unit, -unit, unit, 0, 0});
  expect_near(norm(NormMethod::asym_clip), norm(NormMethod::mean_std));
  expect_near(norm(NormMethod::mean, NormScope::batch), {-1, -2, -2, -1, 3, 3});
}

TEST(RewardNorm, RollExplicitTypesWin) {
  const std::vector<double> scores{1, 0, 4, 3};
  const std::vector<uint32_t> groups{0, 0, 1, 1};
  const RewardNormOptions options = reward_norm_options(NormScope::group, NormMethod::identity,
                                                        NormScope::group, NormScope::batch);
  const double std = std::sqrt(10.0 / 3) + 1e-6;
  expect_near(agentic_reward_norm(scores, groups, options),
              {.5 / std, -.5 / std, .5 / std, -.5 / std});
}

TEST(RewardNorm, Alg1FlatScopesAreExactZeros) {
  const std::vector<double> scores{7, .1, .1, .1};
  const std::vector<uint32_t> groups{0, 1, 1, 1};
  for (double x : agentic_reward_norm(scores, groups, {NormScope::group, NormScope::group}))
    EXPECT_EQ(x, 0);
  for (double x :
       agentic_reward_norm(std::array{7.0}, std::array{0U}, {NormScope::none, NormScope::group}))
    EXPECT_EQ(x, 0);
  GroupStats stats = group_stats(scores, groups);
  EXPECT_EQ(stats.groups, 2U);
  EXPECT_EQ(stats.mixed_groups, 0U);
  EXPECT_EQ(group_stats(std::array{1.0, 0.0}, std::array{3U, 3U}).mixed_groups, 1U);
}

struct AdvantageFixture : testing::Test {
  // Sequence 0: prompt, two answer tokens, observation, one answer token. Sequence 1: prompt, one
  // answer token.
  std::vector<int32_t> cu{0, 5, 7};
  std::vector<uint8_t> mask{0, 1, 1, 0, 1, 0, 1};
  std::vector<double> rewards{2, -1};

  std::vector<double> run(const AdvantageOptions& options, std::span<const double> logp = {},
                          std::span<const double> ref = {}) {
    auto credit = compute_token_advantages({{cu, mask}, rewards, logp, ref}, options);
    EXPECT_TRUE(credit.has_value());
    return credit->advantages;
  }
};

TEST_F(AdvantageFixture, RewardSpreadsBackOverTheSequence) {
  expect_near(run({}), {0, 2, 2, 0, 2, 0, -1});
  expect_near(run({.gamma = .5}), {0, .25, .5, 0, 2, 0, -1});
  expect_near(run({.reward_clip = 1.5}), {0, 1.5, 1.5, 0, 1.5, 0, -1});
}

TEST_F(AdvantageFixture, WhitenThenMaskThenClip) {
  // Valid values 2 2 2 -1: mean 1.25, unbiased variance 2.25, so 0.5 and -1.5; the clip acts on
  // those.
  expect_near(run({.whiten = true}), {0, .5, .5, 0, .5, 0, -1.5});
  expect_near(run({.whiten = true, .advantage_clip = .75}), {0, .5, .5, 0, .5, 0, -.75});
  expect_near(run({.advantage_clip = .2}), {0, .2, .2, 0, .2, 0, -.2});
}

TEST_F(AdvantageFixture, KlRewardIsTakenOffEachTokenAndClippedAgain) {
  const double nan = k_nan;
  const std::vector<double> logp{nan, -1, -1, nan, -2, 5, -1};
  const std::vector<double> ref{3,  -2,  -1, nan,
                                -1, nan, -1};  // k1 = lp - ref: 1, 0, -1, 0 where valid
  AdvantageOptions options{.add_token_level_kl = true, .kl_kind = KlKind::kl, .kl_coef = .5};
  // r = -.5, 0, 2 + .5 | -1
  expect_near(run(options, logp, ref), {0, 2, 2.5, 0, 2.5, 0, -1});
  options.reward_clip = 2;  // the last token's 2.5 is clipped to 2 again
  expect_near(run(options, logp, ref), {0, 1.5, 2, 0, 2, 0, -1});
}

TEST_F(AdvantageFixture, SequenceWithoutAnswerGetsNothing) {
  mask = {0, 0, 0, 0, 0, 0, 1};
  expect_near(run({.whiten = true}), {0, 0, 0, 0, 0, 0, -1});  // one valid token: not whitened
  mask.assign(7, 0);
  expect_near(run({.whiten = true, .advantage_clip = .2}), std::vector<double>(7, 0));
}

TEST_F(AdvantageFixture, SegmentReturnsOfAgenticReinforce) {
  const std::vector<double> token_rewards{9, 9, 1, 9, 2, 9, -1};
  expect_near(segment_returns({token_rewards, {cu, mask}, .5}), {0, 2, 2, 0, 2, 0, -1});
}

TEST_F(AdvantageFixture, RefusesBrokenInput) {
  auto code = [&](const AdvantageInput& input, const AdvantageOptions& options) {
    return compute_token_advantages(input, options).error().code;
  };
  const std::vector<double> nan{k_nan, 0};
  const std::vector<double> one{1};
  EXPECT_EQ(code({{cu, mask}, nan, {}, {}}, {}), Errc::invalid_argument);
  EXPECT_EQ(code({{cu, mask}, one, {}, {}}, {}), Errc::invalid_argument);
  EXPECT_EQ(code({{cu, mask}, rewards, {}, {}}, {.add_token_level_kl = true}),
            Errc::invalid_argument);
  const std::vector<int32_t> short_cu{0, 5, 6};
  EXPECT_EQ(code({{short_cu, mask}, rewards, {}, {}}, {}), Errc::invalid_argument);
}

TEST(KlController, AdaptsWithinItsClip) {
  KlController fixed(.1, std::nullopt, 100);
  fixed.update(50, 10);
  EXPECT_EQ(fixed.coefficient(), .1);
  KlController adaptive(.1, .1, 100);
  adaptive.update(5, 10);  // far above: the error is clipped to .2
  EXPECT_NEAR(adaptive.coefficient(), .1 * 1.02, 1e-12);
  adaptive.restore(.1);
  adaptive.update(.09, 10);
  EXPECT_NEAR(adaptive.coefficient(), .1 * .99, 1e-12);
}

TEST(Kl, SequenceMeanIsOverAllSequences) {
  const std::vector<double> kl{k_nan, 1, 3, 8, k_nan, k_nan};
  const std::vector<uint8_t> mask{0, 1, 1, 1, 0, 0};
  const std::vector<int32_t> cu{0, 3, 4, 6};
  EXPECT_NEAR(sequence_mean(kl, mask, cu), (2 + 8 + 0) / 3.0, 1e-12);
}

TEST(Schedule, WarmUpThenDecay) {
  ScheduleOptions options{ScheduleKind::linear, 1.0, 4, 14, .1};
  EXPECT_DOUBLE_EQ(learning_rate(options, 0), .25);
  EXPECT_DOUBLE_EQ(learning_rate(options, 3), 1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 4), 1);
  EXPECT_DOUBLE_EQ(learning_rate(options, 9), .55);
  EXPECT_NEAR(learning_rate(options, 14), .1, 1e-12);
  EXPECT_NEAR(learning_rate(options, 99), .1, 1e-12);
  options.kind = ScheduleKind::cosine;
  EXPECT_NEAR(learning_rate(options, 9), .55, 1e-12);
  EXPECT_GT(learning_rate(options, 6), .8);
  options.kind = ScheduleKind::constant;
  EXPECT_EQ(learning_rate(options, 9), 1);
  EXPECT_EQ(parse_schedule_kind("exponential").error().code, Errc::config);
}

// Numbers of the formulas in transformers' optimization.py, at the step behind ours.
TEST(Schedule, TheOthersOfTransformers) {
  ScheduleOptions options{ScheduleKind::polynomial, 2.0, 4, 14, .1};
  options.power = 2;
  EXPECT_NEAR(learning_rate(options, 9), 2 * (.1 + .9 * .25), 1e-12);
  EXPECT_NEAR(learning_rate(options, 99), .2, 1e-12);
  options = {ScheduleKind::cosine_with_restarts, 1.0, 0, 10};
  options.cycles = 2;
  EXPECT_NEAR(learning_rate(options, 0), 1, 1e-12);
  EXPECT_NEAR(learning_rate(options, 4), (1 + std::cos(.8 * std::numbers::pi)) / 2, 1e-12);
  EXPECT_NEAR(learning_rate(options, 5), 1, 1e-12);  // it starts again
  EXPECT_EQ(learning_rate(options, 10), 0);
  options = {ScheduleKind::inverse_sqrt, 1.0, 4, 14};
  options.timescale = 4;
  EXPECT_NEAR(learning_rate(options, 4), 1, 1e-12);
  EXPECT_NEAR(learning_rate(options, 16), .5, 1e-12);
  options = {ScheduleKind::warmup_stable_decay, 1.0, 2, 12, .2};
  options.decay_steps = 4;
  EXPECT_EQ(learning_rate(options, 8), 1);
  EXPECT_NEAR(learning_rate(options, 10), .6, 1e-12);
  EXPECT_NEAR(learning_rate(options, 12), .2, 1e-12);
  EXPECT_EQ(*parse_schedule_kind("cosine_with_min_lr"), ScheduleKind::cosine);
}

}  // namespace
}  // namespace cohort::algorithms::algorithms_test
