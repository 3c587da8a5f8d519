/// DPPO by the binary KL (verl 0.9): as dppo_tv with D = q ln(q/p) + (1 - q) ln((1 - q)/(1 - p)),
/// p and q the probabilities now and under old; a token is left out where D is above the bound and
/// p has moved in the direction of A. 1e-8 keeps the logarithm finite.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate dppo_kl_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  const at::Tensor lp = in.logp.detach(), p = lp.exp(), q = in.old_logp.exp();
  const at::Tensor rest = ((1 - q + 1e-8) / (1 - p + 1e-8)).log();
  const at::Tensor kl = q * (in.old_logp - lp) + (1 - q) * rest;
  const at::Tensor keep =
      at::where(in.advantages.gt(0), kl.le(options.pg_clip_high).logical_or(p.le(q)),
                kl.le(options.pg_clip_low).logical_or(p.ge(q)));
  s.per_token = {{"actor/clipfrac", keep.logical_not()}};
  s.loss = policy_gradient(in, s.ratio.clamp_max(options.dual_clip_bound.value_or(20)) * keep);
  return s;
}

}  // namespace

LossForm dppo_kl_loss() { return {dppo_kl_tokens}; }

}  // namespace cohort::algorithms
