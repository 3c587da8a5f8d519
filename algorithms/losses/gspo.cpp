/// GSPO (arXiv 2507.18071, section 4.3, GSPO-token): s_i = exp(mean over the sequence of lp - old),
///   rho_t = sg(s_i) exp(lp - sg(lp)), l = -min(rho A, clip(rho, 1 - low, 1 + high) A),
/// without a dual clip. log rho is at most 10, as in verl. Ranges are small: 3e-4 and 4e-4 in the
/// paper.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate gspo_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s;
  const at::Tensor mean = sequence_mean(in, in.logp - in.old_logp).detach() * in.live;
  s.log_ratio = (in.logp - in.logp.detach() + mean).clamp_max(10);
  s.ratio = s.log_ratio.exp();
  s.loss = clipped_surrogate(in, options, s);
  return s;
}

}  // namespace

LossForm gspo_loss() { return {gspo_tokens}; }

}  // namespace cohort::algorithms
