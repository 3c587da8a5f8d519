/// TOPR (arXiv 2503.14286): l = -A lp where the score of the sequence is above 0 (a mark), else
/// tis: -sg(clip(rho, 0, 1)) A lp. ROLL's
/// weights of the two parts are 1.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate topr_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  at::Tensor weight = s.ratio.clamp(0, 1) * options.topr_negative;
  if (in.marks.defined())
    weight = at::where(in.marks.gt(0), in.live * options.topr_positive, weight);
  s.loss = policy_gradient(in, weight);
  return s;
}

}  // namespace

LossForm topr_loss() { return {topr_tokens}; }

}  // namespace cohort::algorithms
