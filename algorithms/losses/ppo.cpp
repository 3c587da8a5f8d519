/// PPO (arXiv 1707.06347, eq. 7), per token, minimised: rho = exp(lp - old),
///   l = -min(rho A, clip(rho, 1 - low, 1 + high) A)
/// dual clip (arXiv 1912.09729, eq. 5) where A < 0: l = -max(min(rho A, clip A), c A); ROLL's c =
/// 1 + 2 pg_clip (1.4 at the default), verl's c = 3. TRL's delta bounds rho in the first branch
/// alone (ratio_cap). lp - old is clamped to +-20 first (verl): no overflow, no gradient beyond.
/// ratio_level sequence is ROLL's importance_sampling seq and TRL's importance_sampling_level
/// sequence: the gradient goes through the mean.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate ppo_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  s.loss = clipped_surrogate(in, options, s);
  if (options.dual_clip) {
    const double bound = options.dual_clip_bound.value_or(1 + 2 * options.pg_clip);
    s.loss = at::where(in.advantages.lt(0), at::min(s.loss, -bound * in.advantages), s.loss);
  }
  return s;
}

}  // namespace

LossForm ppo_loss() { return {ppo_tokens}; }

}  // namespace cohort::algorithms
