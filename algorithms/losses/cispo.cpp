/// CISPO (arXiv 2506.13585, eq. 4): l = -sg(clip(rho, 1 - low, 1 + high)) A lp. verl takes the
/// range of PPO, ROLL always 0.1 and 0.1. TRL's loss of the same name is cispo_cap.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate cispo_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  const at::Tensor clipped = s.ratio.clamp(1 - options.pg_clip_low, 1 + options.pg_clip_high);
  s.per_token = {{"actor/clipfrac", clipped.ne(s.ratio)}};
  s.loss = policy_gradient(in, clipped);
  return s;
}

}  // namespace

LossForm cispo_loss() { return {cispo_tokens}; }

}  // namespace cohort::algorithms
