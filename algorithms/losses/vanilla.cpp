/// The policy gradient without a ratio (Williams 1992): l = -A lp. ROLL's vanilla, verl's gpg
/// (arXiv 2504.02546). Nothing bounds what stale data do to it.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate vanilla_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  s.loss = policy_gradient(in, in.live);
  return s;
}

}  // namespace

LossForm vanilla_loss() { return {vanilla_tokens}; }

}  // namespace cohort::algorithms
