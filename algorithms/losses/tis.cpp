/// Truncated importance sampling as ROLL has it: l = -sg(clip(rho, 0, 1)) A lp. ROLL documents keys
/// for the two bounds and reads neither.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate tis_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  s.per_token = {{"actor/clipfrac", s.ratio.gt(1)}};
  s.loss = policy_gradient(in, s.ratio.clamp(0, 1));
  return s;
}

}  // namespace

LossForm tis_loss() { return {tis_tokens}; }

}  // namespace cohort::algorithms
