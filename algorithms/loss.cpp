#include "algorithms/loss.hpp"

#include <fmt/format.h>

#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

using at::Tensor;

Tensor kl_of_kind(KlKind kind, const Tensor& logp, const Tensor& ref_logp) {
  Tensor d = ref_logp - logp;
  switch (kind) {
    case KlKind::kl:
      return -d;
    case KlKind::abs:
      return d.abs();
    case KlKind::mse:
      return 0.5 * d * d;
    case KlKind::full:  // refused by preflight
    case KlKind::k3:
      break;
  }
  Tensor clamped = d.clamp(-k_log_ratio_clamp, k_log_ratio_clamp);
  return (clamped.expm1() - clamped).clamp(-k_k3_clamp, k_k3_clamp);
}

void check_shapes(const PolicyLossInput& input) {
  COHORT_CHECK(input.logp.defined() && input.logp.dim() == 1, "ALG-3: logp must be [M]");
  const int64_t size = input.logp.size(0);
  for (const Tensor* x :
       {&input.old_logp, &input.advantages, &input.mask, &input.ref_logp, &input.entropy,
        &input.weights, &input.marks, &input.seq_id, &input.segment_id})
    COHORT_CHECK(!x->defined() || (x->dim() == 1 && x->size(0) == size),
                 fmt::format("ALG-3: a tensor of the micro-batch is not [{}]", size));
  COHORT_CHECK(input.advantages.defined(), "ALG-3: advantages are missing");
}

SurrogateInput surrogate_input(const PolicyLossInput& input, const Tensor& mask,
                               const GlobalCounts& counts) {
  SurrogateInput in;
  in.logp = live(input.logp, mask);
  in.old_logp = input.old_logp.defined() ? live(input.old_logp, mask) : in.logp.detach();
  in.advantages = live(input.advantages, mask);
  in.live = live(at::ones({input.logp.size(0)}, input.logp.options().requires_grad(false)), mask);
  if (input.weights.defined()) in.weights = live(input.weights, mask);
  if (input.marks.defined()) in.marks = live(input.marks.to(input.logp.dtype()), mask);
  in.seq_id = input.seq_id;
  in.seq_count = input.seq_count;
  in.segment_id = input.segment_id;
  in.segment_count = input.segment_count;
  in.counts = counts;
  return in;
}

/// OPSM: 0 on the sequences with A < 0 that the policy has left behind by more than the threshold.
Tensor kept_sequences(const SurrogateInput& in, double threshold) {
  const Tensor behind = sequence_mean(in, (in.old_logp - in.logp).detach());
  return behind.le(threshold).logical_or(in.advantages.ge(0)).to(in.logp.dtype());
}

}  // namespace

Tensor kl_tokens(const Tensor& logp, const Tensor& ref_logp, const Tensor& old_logp,
                 const KlLossOptions& options) {
  Tensor kl = kl_of_kind(options.kind, logp, ref_logp);
  if (options.is_straight_through) {
    const Tensor square = kl_of_kind(KlKind::mse, logp, ref_logp);
    kl = square - square.detach() + kl.detach();
  }
  if (!options.is_bias_corrected) return kl;
  return kl * (logp - old_logp).clamp(-k_log_ratio_clamp, k_log_ratio_clamp).exp();
}

PolicyLoss policy_loss(const PolicyLossInput& input, const PolicyLossOptions& options,
                       const GlobalCounts& counts) {
  check_shapes(input);
  const Tensor mask = input.mask.defined() ? input.mask.to(at::kBool) : Tensor();
  const SurrogateInput in = surrogate_input(input, mask, counts);
  const Tensor weights =
      aggregation_weights(input.logp.size(0), input.logp.options().requires_grad(false),
                          {mask, input.seq_id, input.seq_count}, options.loss_agg, counts);
  const Surrogate s = loss_form(options.kind).tokens(in, options);
  Tensor tokens = s.loss;
  if (options.off_policy_mask) tokens = tokens * kept_sequences(in, *options.off_policy_mask);
  if (in.weights.defined() && !s.has_weights) tokens = tokens * in.weights;

  PolicyLoss result;
  Numbers& numbers = result.numbers;
  Tensor total = ((s.aggregation.defined() ? s.aggregation : weights) * tokens).sum();
  numbers.add("actor/pg_loss", total.item<double>());
  if (input.ref_logp.defined() && options.use_kl_loss) {
    Tensor kl =
        (weights * kl_tokens(in.logp, live(input.ref_logp, mask), in.old_logp, options.kl)).sum();
    numbers.add("actor/kl_loss", kl.item<double>());
    total = total + options.kl_loss_coef * kl;
  }
  if (options.rl_coef != 1) total = total * options.rl_coef;
  if (input.entropy.defined()) {
    Tensor entropy = (weights * live(input.entropy, mask)).sum();
    numbers.add("actor/entropy", entropy.item<double>());
    if (options.entropy_coef != 0) total = total - options.entropy_coef * entropy;
  }
  result.total = total;
  result.tokens = tokens.detach() * in.live;
  const at::NoGradGuard no_grad;
  const double per_token = counts.tokens > 0 ? 1 / counts.tokens : 0;
  for (const auto& [name, of_token] : s.per_token)
    numbers.add(name, of_token.sum().item<double>() * per_token);
  numbers.add("actor/approxkl", (s.ratio - 1 - s.log_ratio).sum().item<double>() * per_token);
  numbers.add("actor/ratio_max", s.ratio.numel() > 0 ? s.ratio.max().item<double>() : 0,
              Reduce::max);
  return result;
}

PolicyLoss sft_loss(const Tensor& logp, const Tensor& mask, const GlobalCounts& counts) {
  COHORT_CHECK(logp.defined() && logp.dim() == 1, "ALG-3: logp must be [M]");
  const Tensor bool_mask = mask.defined() ? mask.to(at::kBool) : Tensor();
  PolicyLoss result;
  result.total = live(logp, bool_mask).sum() * (counts.tokens > 0 ? -1 / counts.tokens : 0);
  result.numbers.add("actor/pg_loss", result.total.item<double>());
  return result;
}

}  // namespace cohort::algorithms
