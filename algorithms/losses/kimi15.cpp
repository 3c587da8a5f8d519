/// Kimi k1.5 (arXiv 2501.12599, eq. 3) and DRO (arXiv 2405.19107, eq. 4), which are one formula:
///   l = -A lp + c/2 (lp - old)^2; ROLL's kimi15 has c = tau = 0.1, verl's dro c = dro_beta.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate kimi15_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  const at::Tensor drift = in.logp - in.old_logp;
  s.loss = policy_gradient(in, in.live) + 0.5 * options.quadratic_coef * drift * drift;
  return s;
}

}  // namespace

LossForm kimi15_loss() { return {kimi15_tokens}; }

}  // namespace cohort::algorithms
