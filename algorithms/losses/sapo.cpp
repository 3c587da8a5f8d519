/// SAPO (arXiv 2511.20347): a soft gate in place of the clip, l = -A sigmoid(tau (rho - 1)) 4/tau,
/// tau = tau_pos where A > 0, else tau_neg.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate sapo_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  const at::Tensor positive = in.advantages.gt(0).to(in.logp.dtype());
  const at::Tensor tau = positive * (options.tau_pos - options.tau_neg) + options.tau_neg;
  // at::sigmoid gives the last few elements of a tensor other bits than the rest (LOSS-2)
  s.loss = -(in.advantages * 4 / tau / (1 + (tau * (1 - s.ratio)).exp()));
  return s;
}

}  // namespace

LossForm sapo_loss() { return {sapo_tokens}; }

}  // namespace cohort::algorithms
