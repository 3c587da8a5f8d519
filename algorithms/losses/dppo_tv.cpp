/// DPPO by total variation (verl 0.9): l = -sg(min(rho, c)) A lp while the probability p has moved
/// little against A: A > 0 as long as p - p_old <= high, else as long as p - p_old >= -low.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate dppo_tv_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  const at::Tensor moved = in.logp.detach().exp() - in.old_logp.exp();
  const at::Tensor keep = at::where(in.advantages.gt(0), moved.le(options.pg_clip_high),
                                    moved.ge(-options.pg_clip_low));
  s.per_token = {{"actor/clipfrac", keep.logical_not()}};
  s.loss = policy_gradient(in, s.ratio.clamp_max(options.dual_clip_bound.value_or(20)) * keep);
  return s;
}

}  // namespace

LossForm dppo_tv_loss() { return {dppo_tv_tokens}; }

}  // namespace cohort::algorithms
