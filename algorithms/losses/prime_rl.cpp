/// The default loss of prime-rl: l = -rho A while the probability has moved by at most low or high
/// in the direction of A (the gradient goes through rho, no clip), + tau (lp - old)^2 on every
/// token; old is what the engine recorded.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate prime_rl_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  const at::Tensor moved = in.logp.detach().exp() - in.old_logp.exp();
  const at::Tensor drop = at::where(in.advantages.gt(0), moved.gt(options.pg_clip_high),
                                    moved.lt(-options.pg_clip_low));
  const at::Tensor drift = in.logp - in.old_logp;
  s.per_token = {{"actor/clipfrac", drop}};
  s.loss = -(in.advantages * s.ratio * drop.logical_not()) + options.quadratic_coef * drift * drift;
  return s;
}

}  // namespace

LossForm prime_rl_loss() { return {prime_rl_tokens}; }

}  // namespace cohort::algorithms
