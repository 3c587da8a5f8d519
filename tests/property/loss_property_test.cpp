// ALG-3 on random batches: the loss and its gradient do not depend on the split into micro-batches;
// the gradient agrees with numeric differences.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "algorithms/loss.hpp"
#include "runtime/base/rng.hpp"

namespace cohort::algorithms {
namespace {

struct Batch {
  at::Tensor logp, old_logp, advantages, mask, ref_logp, entropy,
      seq_id;  // f64 but for mask and seq_id
  int64_t sequences = 0;
  GlobalCounts counts;
};

uint64_t property_seed() {
  const char* text = std::getenv("COHORT_SEED");
  return text ? std::stoull(text) : 20'261'121;
}

at::Tensor doubles(const std::vector<double>& x) { return at::tensor(x, at::kDouble); }

Batch random_batch(Rng& rng) {
  Batch batch;
  batch.sequences = 2 + static_cast<int64_t>(rng.below(6));
  std::vector<double> logp, old_logp, advantages, ref, entropy;
  std::vector<uint8_t> mask;
  std::vector<int64_t> seq_id;
  for (int64_t s = 0; s < batch.sequences; ++s) {
    bool has_live = false;
    for (uint64_t n = 1 + rng.below(7); n > 0; --n) {
      logp.push_back(-3 * rng.uniform());
      old_logp.push_back(logp.back() + 1.2 * (rng.uniform() - .5));
      ref.push_back(logp.back() + 1.2 * (rng.uniform() - .5));
      advantages.push_back(4 * (rng.uniform() - .5));
      entropy.push_back(rng.uniform());
      mask.push_back(rng.below(4) != 0);
      seq_id.push_back(s);
      has_live = has_live || mask.back() != 0;
      batch.counts.tokens += mask.back();
    }
    batch.counts.sequences += has_live ? 1 : 0;
  }
  batch.counts.norm_length = 13;
  batch.logp = doubles(logp);
  batch.old_logp = doubles(old_logp);
  batch.advantages = doubles(advantages);
  batch.ref_logp = doubles(ref);
  batch.entropy = doubles(entropy);
  batch.mask = at::tensor(mask, at::kByte);
  batch.seq_id = at::tensor(seq_id, at::kLong);
  return batch;
}

PolicyLossOptions random_options(Rng& rng) {
  PolicyLossOptions options;
  options.pg_clip_high = .28;
  options.dual_clip = rng.below(2) == 0;
  options.loss_agg = static_cast<LossAgg>(rng.below(catalog::entries(LossAgg{}).size()));
  options.entropy_coef = .05;
  options.use_kl_loss = rng.below(2) == 0;
  options.kl_loss_coef = .1;
  options.kl.kind = static_cast<KlKind>(rng.below(4));
  return options;
}

/// Returns the share of the sequences [first, last) with `logp` in place of the batch's.
PolicyLoss share_of(const Batch& batch, const PolicyLossOptions& options, const at::Tensor& logp,
                    int64_t first, int64_t last) {
  at::Tensor rows =
      at::nonzero(batch.seq_id.ge(first).logical_and(batch.seq_id.lt(last))).flatten();
  PolicyLossInput input;
  input.logp = logp.index_select(0, rows);
  input.old_logp = batch.old_logp.index_select(0, rows);
  input.advantages = batch.advantages.index_select(0, rows);
  input.mask = batch.mask.index_select(0, rows);
  input.ref_logp = batch.ref_logp.index_select(0, rows);
  input.entropy =
      batch.entropy.index_select(0, rows) - .1 * input.logp;  // entropy has a gradient too
  input.seq_id = batch.seq_id.index_select(0, rows) - first;
  input.seq_count = last - first;
  return policy_loss(input, options, batch.counts);
}

struct Sums {
  double total = 0;
  Numbers numbers;
  at::Tensor gradient;
};

Sums sum_over(const Batch& batch, const PolicyLossOptions& options,
              const std::vector<int64_t>& cuts) {
  at::Tensor logp = batch.logp.clone().requires_grad_(true);
  Sums sums;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    PolicyLoss loss = share_of(batch, options, logp, cuts[i], cuts[i + 1]);
    loss.total.backward();
    sums.total += loss.total.item<double>();
    sums.numbers.add(loss.numbers);
  }
  sums.gradient = logp.grad().clone();
  return sums;
}

TEST(LossProperty, Alg3SplitInvariance) {
  Rng rng(property_seed());
  for (int trial = 0; trial < 60; ++trial) {
    const Batch batch = random_batch(rng);
    const PolicyLossOptions options = random_options(rng);
    std::vector<int64_t> cuts{0};
    for (int64_t s = 1; s < batch.sequences; ++s) {
      if (rng.below(2) == 0) cuts.push_back(s);
    }
    cuts.push_back(batch.sequences);
    const Sums whole = sum_over(batch, options, {0, batch.sequences});
    const Sums split = sum_over(batch, options, cuts);
    EXPECT_NEAR(split.total, whole.total, 1e-12) << "trial " << trial;
    ASSERT_EQ(split.numbers.all().size(), whole.numbers.all().size());
    for (const Number& number : whole.numbers.all())
      EXPECT_NEAR(split.numbers.at(number.name()), number.value, 1e-12) << number.name();
    EXPECT_LT((split.gradient - whole.gradient).abs().max().item<double>(), 1e-12);
  }
}

TEST(LossProperty, GradientAgreesWithDifferences) {
  Rng rng(property_seed() + 1);
  constexpr double step = 1e-6;
  int agreeing = 0;
  int checked = 0;
  for (int trial = 0; trial < 12; ++trial) {
    const Batch batch = random_batch(rng);
    const PolicyLossOptions options = random_options(rng);
    const Sums sums = sum_over(batch, options, {0, batch.sequences});
    for (int64_t t = 0; t < batch.logp.size(0); ++t, ++checked) {
      auto value_at = [&](double offset) {
        at::Tensor logp = batch.logp.clone();
        logp[t] += offset;
        return share_of(batch, options, logp, 0, batch.sequences).total.item<double>();
      };
      const double numeric = (value_at(step) - value_at(-step)) / (2 * step);
      agreeing += std::abs(numeric - sums.gradient[t].item<double>()) < 1e-7 ? 1 : 0;
    }
  }
  EXPECT_EQ(agreeing, checked);
}

}  // namespace
}  // namespace cohort::algorithms
