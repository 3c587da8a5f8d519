#include "algorithms/loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort::algorithms {
namespace {

using at::Tensor;

/// Returns x where mask is 1 and 0 elsewhere; where() and not a product, since NaN * 0 is NaN
/// (ALG-4).
Tensor live(const Tensor& x, const Tensor& mask) {
  return mask.defined() ? at::where(mask, x, at::zeros({}, x.options())) : x;
}

/// Returns w [M] with agg(x) = sum w x; 0 where masked.
Tensor aggregation_weights(const PolicyLossInput& input, const Tensor& mask, LossAgg agg,
                           const GlobalCounts& counts) {
  const at::TensorOptions options = input.logp.options().requires_grad(false);
  Tensor ones = live(at::ones({input.logp.size(0)}, options), mask);
  auto over = [](double count) { return count > 0 ? 1 / count : 0; };
  switch (agg) {
    case LossAgg::token_mean:
      return ones * over(counts.tokens);
    case LossAgg::seq_mean_token_sum:
      return ones * over(counts.sequences);
    case LossAgg::seq_mean_token_sum_norm:
      return ones * over(counts.norm_length);
    case LossAgg::seq_mean_token_mean:
      break;
  }
  COHORT_CHECK(input.seq_id.defined(), "ALG-3: seq-mean-token-mean needs seq_id");
  Tensor per_sequence = at::zeros({input.seq_count}, options).index_add(0, input.seq_id, ones);
  Tensor per_token = per_sequence.index_select(0, input.seq_id).clamp_min(1);
  return ones / per_token * over(counts.sequences);
}

struct Surrogate {
  Tensor loss;        // [M]
  Tensor is_clipped;  // [M] bool
  Tensor ratio;       // [M]
  Tensor log_ratio;   // [M]
};

Surrogate ppo_surrogate(const Tensor& logp, const Tensor& old_logp, const Tensor& advantages,
                        const PolicyLossOptions& options) {
  Surrogate s;
  s.log_ratio = (logp - old_logp).clamp(-k_log_ratio_clamp, k_log_ratio_clamp);
  s.ratio = s.log_ratio.exp();
  Tensor plain = -(s.ratio * advantages);
  Tensor clipped = -(s.ratio.clamp(1 - options.pg_clip_low, 1 + options.pg_clip_high) * advantages);
  s.is_clipped = clipped.gt(plain);
  s.loss = at::max(plain, clipped);
  if (options.dual_clip) {
    const double bound =
        options.dual_clip_bound > 0 ? options.dual_clip_bound : 1 + 2 * options.pg_clip;
    s.loss = at::where(advantages.lt(0), at::min(s.loss, -bound * advantages), s.loss);
  }
  return s;
}

Tensor kl_tensor(KlKind kind, const Tensor& logp, const Tensor& ref_logp) {
  Tensor d = ref_logp - logp;
  switch (kind) {
    case KlKind::k1:
      return -d;
    case KlKind::abs:
      return d.abs();
    case KlKind::k2:
      return 0.5 * d * d;
    case KlKind::k3:
      break;
  }
  Tensor clamped = d.clamp(-k_log_ratio_clamp, k_log_ratio_clamp);
  return (clamped.expm1() - clamped).clamp(-k_k3_clamp, k_k3_clamp);
}

void check_shapes(const PolicyLossInput& input) {
  COHORT_CHECK(input.logp.defined() && input.logp.dim() == 1, "ALG-3: logp must be [M]");
  const int64_t size = input.logp.size(0);
  for (const Tensor* x : {&input.old_logp, &input.advantages, &input.mask, &input.ref_logp,
                          &input.entropy, &input.seq_id})
    COHORT_CHECK(!x->defined() || (x->dim() == 1 && x->size(0) == size),
                 fmt::format("ALG-3: a tensor of the micro-batch is not [{}]", size));
  COHORT_CHECK(input.advantages.defined(), "ALG-3: advantages are missing");
}

}  // namespace

Expected<LossAgg> parse_loss_agg(std::string_view name) {
  constexpr std::pair<std::string_view, LossAgg> names[] = {
      {"token-mean", LossAgg::token_mean},
      {"seq-mean-token-sum", LossAgg::seq_mean_token_sum},
      {"seq-mean-token-mean", LossAgg::seq_mean_token_mean},
      {"seq-mean-token-sum-norm", LossAgg::seq_mean_token_sum_norm}};
  for (const auto& [text, agg] : names) {
    if (text == name) return agg;
  }
  return Error{Errc::config,
               fmt::format("loss_agg_mode: '{}' is not one of token-mean, seq-mean-token-sum, "
                           "seq-mean-token-mean, seq-mean-token-sum-norm",
                           name)};
}

PolicyLoss policy_loss(const PolicyLossInput& input, const PolicyLossOptions& options,
                       const GlobalCounts& counts) {
  check_shapes(input);
  const Tensor mask = input.mask.defined() ? input.mask.to(at::kBool) : Tensor();
  const Tensor logp = live(input.logp, mask);
  const Tensor old_logp = input.old_logp.defined() ? live(input.old_logp, mask) : logp.detach();
  const Tensor weights = aggregation_weights(input, mask, options.loss_agg, counts);
  const Surrogate s = ppo_surrogate(logp, old_logp, live(input.advantages, mask), options);

  PolicyLoss result;
  Tensor total = (weights * s.loss).sum();
  result.pg_loss = total.item<double>();
  if (input.entropy.defined()) {
    Tensor entropy = (weights * live(input.entropy, mask)).sum();
    result.entropy = entropy.item<double>();
    if (options.entropy_coef != 0) total = total - options.entropy_coef * entropy;
  }
  if (input.ref_logp.defined()) {
    Tensor kl = (weights * kl_tensor(options.kl_kind, logp, live(input.ref_logp, mask))).sum();
    result.kl = kl.item<double>();
    if (options.use_kl_loss) total = total + options.kl_loss_coef * kl;
  }
  result.total = total;
  const at::NoGradGuard no_grad;
  const double per_token = counts.tokens > 0 ? 1 / counts.tokens : 0;
  result.clip_fraction = s.is_clipped.sum().item<double>() * per_token;
  result.approx_kl = (s.ratio - 1 - s.log_ratio).sum().item<double>() * per_token;
  result.ratio_max = s.ratio.numel() > 0 ? s.ratio.max().item<double>() : 0;
  return result;
}

PolicyLoss sft_loss(const Tensor& logp, const Tensor& mask, const GlobalCounts& counts) {
  COHORT_CHECK(logp.defined() && logp.dim() == 1, "ALG-3: logp must be [M]");
  const Tensor bool_mask = mask.defined() ? mask.to(at::kBool) : Tensor();
  PolicyLoss result;
  result.total = live(logp, bool_mask).sum() * (counts.tokens > 0 ? -1 / counts.tokens : 0);
  result.pg_loss = result.total.item<double>();
  return result;
}

}  // namespace cohort::algorithms
