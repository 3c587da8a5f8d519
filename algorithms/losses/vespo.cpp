/// VESPO as TRL has it: l = -sg(phi) A lp, phi = exp(lambda + k ln w - lambda w), w the product of
/// the ratios of the sequence, ln w in [ln 1e-8, 20]; (k, lambda) by the sign of A.
#include <cmath>

#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate vespo_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  const at::Tensor log_w =
      sequence_sum(in,
                   (in.logp - in.old_logp).detach().clamp(-k_log_ratio_clamp, k_log_ratio_clamp))
          .clamp(std::log(1e-8), k_log_ratio_clamp);
  const at::Tensor positive = in.advantages.ge(0).to(in.logp.dtype());
  const at::Tensor k = positive * (options.k_pos - options.k_neg) + options.k_neg;
  const at::Tensor lambda =
      positive * (options.lambda_pos - options.lambda_neg) + options.lambda_neg;
  s.loss = policy_gradient(in, (lambda + k * log_w - lambda * log_w.exp()).exp());
  return s;
}

}  // namespace

LossForm vespo_loss() { return {vespo_tokens}; }

}  // namespace cohort::algorithms
