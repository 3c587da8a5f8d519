/// Truncated importance sampling as ROLL has it: l = -sg(clip(rho, low, high)) A lp, low 0 and high
/// 1: ROLL documents keys for the two bounds and reads neither, so no run changes them.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate tis_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  const at::Tensor weight = s.ratio.clamp(options.tis_low, options.tis_high);
  s.per_token = {{"actor/clipfrac", weight.ne(s.ratio)}};
  s.loss = policy_gradient(in, weight);
  return s;
}

}  // namespace

LossForm tis_loss() { return {tis_tokens}; }

}  // namespace cohort::algorithms
