/// PPO (arXiv 1707.06347, eq. 7), per token, minimised: rho = exp(lp - old),
///   l = -min(rho A, clip(rho, 1 - low, 1 + high) A)
/// dual clip (arXiv 1912.09729, eq. 5) where A < 0: l = -max(min(rho A, clip A), c A); ROLL's c =
/// 1 + 2 pg_clip (1.4 at the default), verl's c = 3. lp - old is clamped to +-20 first (verl): no
/// overflow, no gradient beyond.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {

Surrogate ppo_surrogate(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s;
  s.log_ratio = (in.logp - in.old_logp).clamp(-k_log_ratio_clamp, k_log_ratio_clamp);
  s.ratio = s.log_ratio.exp();
  at::Tensor plain = -(s.ratio * in.advantages);
  at::Tensor clipped =
      -(s.ratio.clamp(1 - options.pg_clip_low, 1 + options.pg_clip_high) * in.advantages);
  s.per_token = {{"actor/clipfrac", clipped.gt(plain)}};  // where the clipped side is the worse one
  s.loss = at::max(plain, clipped);
  if (options.dual_clip) {
    const double bound =
        options.dual_clip_bound > 0 ? options.dual_clip_bound : 1 + 2 * options.pg_clip;
    s.loss = at::where(in.advantages.lt(0), at::min(s.loss, -bound * in.advantages), s.loss);
  }
  return s;
}

}  // namespace cohort::algorithms
