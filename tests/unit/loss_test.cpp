// Policy losses on tensors: numbers from verl's formulas in f64, ROLL's variants, edge rules.
#include "algorithms/loss.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace cohort::algorithms::loss_test {
namespace {

constexpr double k_tolerance = 2e-6;
const float k_nan = std::numeric_limits<float>::quiet_NaN();

at::Tensor floats(std::vector<float> x) { return at::tensor(x, at::kFloat); }
at::Tensor ids(std::vector<int64_t> x) { return at::tensor(x, at::kLong); }

/// The loss of one token with log ratio `d` and advantage `a`.
double token_loss(double d, double a, const PolicyLossOptions& options) {
  PolicyLossInput input;
  input.logp = floats({static_cast<float>(d) - 1});
  input.old_logp = floats({-1});
  input.advantages = floats({static_cast<float>(a)});
  input.seq_id = ids({0});
  input.seq_count = 1;
  return policy_loss(input, options, {1, 1, 1}).numbers.at("actor/pg_loss");
}

TEST(PolicyLoss, VerlGoldenNumbersWithDualClip3) {
  PolicyLossOptions options{
      .pg_clip_low = .2, .pg_clip_high = .28, .dual_clip = true, .dual_clip_bound = 3};
  const double d[] = {-1, -.1, 0, .1, .3, 1, 2};
  const double positive[] = {-.367879, -.904837, -1, -1.105171, -1.28, -1.28, -1.28};
  const double negative[] = {.8, .904837, 1, 1.105171, 1.349859, 2.718282, 3};
  for (size_t i = 0; i < std::size(d); ++i) {
    EXPECT_NEAR(token_loss(d[i], 1, options), positive[i], k_tolerance) << d[i];
    EXPECT_NEAR(token_loss(d[i], -1, options), negative[i], k_tolerance) << d[i];
  }
}

TEST(PolicyLoss, RollDualClipBoundIs1Point4) {
  PolicyLossOptions options{.dual_clip = true};
  EXPECT_NEAR(token_loss(1, -1, options), 1.4, k_tolerance);
  EXPECT_NEAR(token_loss(1, 1, options), -1.2, k_tolerance);
  EXPECT_NEAR(token_loss(-1, -1, options), .8, k_tolerance);
  options.dual_clip = false;
  EXPECT_NEAR(token_loss(1, -1, options), 2.718282, k_tolerance);
}

/// Losses [[1,2,.],[3,4,5],[7,.,.]] with a dead NaN token in between; at ratio 1 the loss
/// is -A.
PolicyLossInput golden_batch() {
  PolicyLossInput input;
  input.advantages = -floats({1, 2, k_nan, 3, 4, 5, 7});
  input.logp = floats({-1, -1, k_nan, -1, -1, -1, -1}).requires_grad_(true);
  input.mask = at::tensor(std::vector<uint8_t>{1, 1, 0, 1, 1, 1, 1}, at::kByte);
  input.seq_id = ids({0, 0, 0, 1, 1, 1, 2});
  input.seq_count = 3;
  return input;
}

TEST(PolicyLoss, GoldenAggregation) {
  const GlobalCounts counts{6, 3, 4};
  auto loss = [&](std::string_view name) {
    PolicyLossOptions options{.loss_agg = catalog::find<LossAgg>(name).value()};
    return policy_loss(golden_batch(), options, counts).total.item<double>();
  };
  EXPECT_NEAR(loss("token-mean"), 22 / 6.0, k_tolerance);
  EXPECT_NEAR(loss("seq-mean-token-mean"), (1.5 + 4 + 7) / 3, k_tolerance);
  EXPECT_NEAR(loss("seq-mean-token-sum"), 22 / 3.0, k_tolerance);
  EXPECT_NEAR(loss("seq-mean-token-sum-norm"), 22 / 4.0, k_tolerance);
  EXPECT_NEAR(loss("seq-mean-token-constant"), 22 / (4.0 * 3), k_tolerance);
}

TEST(PolicyLoss, Alg4NanAtMaskedPositionsReachesNothing) {
  for (LossAgg agg : {LossAgg::token_mean, LossAgg::seq_mean_token_mean}) {
    PolicyLossInput input = golden_batch();
    input.old_logp = floats({-1, -2, k_nan, -1, -1, -1, -1});
    input.ref_logp = floats({-1, -2, k_nan, -1, -1, -1, -1});
    input.entropy = floats({1, 1, k_nan, 1, 1, 1, 1});
    PolicyLossOptions options{
        .loss_agg = agg, .entropy_coef = .1, .use_kl_loss = true, .kl_loss_coef = .1};
    PolicyLoss loss = policy_loss(input, options, {6, 3, 1});
    EXPECT_TRUE(std::isfinite(loss.total.item<double>()));
    EXPECT_EQ(loss.numbers.all().size(), 6u);
    for (const Number& number : loss.numbers.all())
      EXPECT_TRUE(std::isfinite(number.value)) << number.name();
    loss.total.backward();
    EXPECT_TRUE(input.logp.grad().isfinite().all().item<bool>());
    EXPECT_EQ(input.logp.grad()[2].item<float>(), 0);
  }
}

TEST(PolicyLoss, NoValidTokenIsAZeroWithZeroGradient) {
  PolicyLossInput input = golden_batch();
  input.mask = at::zeros({7}, at::kByte);
  for (LossAgg agg :
       {LossAgg::token_mean, LossAgg::seq_mean_token_mean, LossAgg::seq_mean_token_sum}) {
    PolicyLoss loss = policy_loss(input, {.loss_agg = agg}, {0, 0, 1});
    EXPECT_EQ(loss.total.item<double>(), 0);
    loss.total.backward();
    EXPECT_EQ(input.logp.grad().abs().sum().item<double>(), 0);
  }
}

TEST(PolicyLoss, EntropyAndKlTerms) {
  PolicyLossInput input;
  input.logp = floats({-1, -2});
  input.advantages = floats({0, 0});
  input.ref_logp = floats({-.5, -2});  // d = .5, 0
  input.entropy = floats({1, 3});
  input.seq_id = ids({0, 0});
  input.seq_count = 1;
  PolicyLossOptions options{
      .loss_agg = LossAgg::token_mean, .entropy_coef = .1, .use_kl_loss = true, .kl_loss_coef = .5};
  PolicyLoss loss = policy_loss(input, options, {2, 1, 1});
  EXPECT_NEAR(loss.numbers.at("actor/entropy"), 2, k_tolerance);
  EXPECT_NEAR(loss.numbers.at("actor/kl_loss"), .148721 / 2, k_tolerance);
  EXPECT_NEAR(loss.total.item<double>(), -.2 + .148721 / 4, k_tolerance);
  options.use_kl_loss = false;  // the reference is a metric only
  EXPECT_NEAR(policy_loss(input, options, {2, 1, 1}).total.item<double>(), -.2, k_tolerance);
}

TEST(PolicyLoss, ReportsClippingAndKl) {
  PolicyLossInput input;
  input.logp = floats({0, -1});
  input.old_logp = floats({-1, -1});
  input.advantages = floats({1, 1});
  input.seq_id = ids({0, 0});
  input.seq_count = 1;
  PolicyLoss loss = policy_loss(input, {}, {2, 1, 1});
  EXPECT_NEAR(loss.numbers.at("actor/clipfrac"), .5, k_tolerance);
  EXPECT_NEAR(loss.numbers.at("actor/approxkl"), .718282 / 2, k_tolerance);
  EXPECT_NEAR(loss.numbers.at("actor/ratio_max"), 2.718282, k_tolerance);
}

TEST(SftLoss, MeanOverLiveTokens) {
  at::Tensor logp = floats({-1, k_nan, -3});
  PolicyLoss loss = sft_loss(logp, at::tensor(std::vector<uint8_t>{1, 0, 1}, at::kByte), {4, 1, 1});
  EXPECT_NEAR(loss.total.item<double>(), 1, k_tolerance);
  EXPECT_EQ(sft_loss(logp, at::zeros({3}, at::kByte), {0, 0, 1}).numbers.at("actor/pg_loss"), 0);
}

}  // namespace
}  // namespace cohort::algorithms::loss_test
