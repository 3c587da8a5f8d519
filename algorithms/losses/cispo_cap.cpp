/// CISPO as TRL writes it: l = -sg(min(rho, cap)) A lp. Its epsilon_high is the cap itself (5.0,
/// say), not the distance from 1 that the same name is elsewhere; no lower bound.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate cispo_cap_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  const double cap = options.ratio_cap.value_or(1 + options.pg_clip_high);
  s.per_token = {{"actor/clipfrac", s.ratio.gt(cap)}};
  s.loss = policy_gradient(in, s.ratio.clamp_max(cap));
  return s;
}

}  // namespace

LossForm cispo_cap_loss() { return {cispo_cap_tokens}; }

}  // namespace cohort::algorithms
