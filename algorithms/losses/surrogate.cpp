#include "algorithms/losses/surrogate.hpp"

#include <algorithm>
#include <cmath>

namespace cohort::algorithms {
namespace {

using at::Tensor;

Tensor group_sum(const Tensor& x, const Tensor& id, int64_t count) {
  COHORT_CHECK(id.defined(), "LOSS-2: a loss over sequences or segments needs their ids");
  return at::zeros({count}, x.options().requires_grad(false)).index_add(0, id, x);
}

Tensor group_mean(const SurrogateInput& in, const Tensor& x, const Tensor& id, int64_t count) {
  const Tensor tokens = group_sum(in.live, id, count).clamp_min(1);
  return (group_sum(x, id, count) / tokens).index_select(0, id);
}

}  // namespace

LossForm loss_form(catalog::PolicyLossKind x) {
  using catalog::PolicyLossKind;
  switch (x) {
#define COHORT_BUILT(id, ...) \
  case PolicyLossKind::id:    \
    return id##_loss();
#define COHORT_PLANNED(id, ...) \
  case PolicyLossKind::id:      \
    break;
#include "runtime/catalog/policy_losses.def"
#undef COHORT_BUILT
#undef COHORT_PLANNED
  }
  COHORT_CHECK(false, "CONF-3: preflight refuses a policy loss that is not built in");
  return {};
}

Tensor sequence_sum(const SurrogateInput& in, const Tensor& x) {
  return group_sum(x, in.seq_id, in.seq_count).index_select(0, in.seq_id);
}

Tensor sequence_mean(const SurrogateInput& in, const Tensor& x) {
  return group_mean(in, x, in.seq_id, in.seq_count);
}

Surrogate with_ratio(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s;
  Tensor difference = in.logp - in.old_logp;
  if (options.ratio_level == RatioLevel::segment)
    difference = group_mean(in, difference, in.segment_id, in.segment_count) * in.live;
  if (options.ratio_level == RatioLevel::sequence)
    difference = sequence_mean(in, difference) * in.live;
  s.log_ratio = difference.clamp(-k_log_ratio_clamp, k_log_ratio_clamp);
  s.ratio = s.log_ratio.exp();
  return s;
}

Tensor clipped_surrogate(const SurrogateInput& in, const PolicyLossOptions& options, Surrogate& s) {
  const Tensor capped = options.ratio_cap ? s.ratio.clamp_max(*options.ratio_cap) : s.ratio;
  const Tensor plain = -(capped * in.advantages);
  const Tensor clipped =
      -(s.ratio.clamp(1 - options.pg_clip_low, 1 + options.pg_clip_high) * in.advantages);
  s.per_token = {{"actor/clipfrac", clipped.gt(plain)}};  // where the clipped side is the worse one
  return at::max(plain, clipped);
}

Tensor policy_gradient(const SurrogateInput& in, const Tensor& weight) {
  return -(weight.detach() * in.advantages * in.logp);
}

std::vector<double> covariances(const PickInput& in) {
  const size_t tokens = in.logp.size();
  double advantage = 0, logp = 0;
  for (size_t t = 0; t < tokens; ++t) {
    advantage += in.advantages[t];
    logp += in.logp[t];
  }
  const double n = std::max<double>(1, static_cast<double>(tokens));
  std::vector<double> found(tokens);
  for (size_t t = 0; t < tokens; ++t)
    found[t] = (in.advantages[t] - advantage / n) * (in.logp[t] - logp / n);
  return found;
}

size_t pick_count(double share, size_t tokens) {
  const auto count = static_cast<size_t>(share * static_cast<double>(tokens));
  return std::min(tokens, std::max<size_t>(1, count));
}

}  // namespace cohort::algorithms
