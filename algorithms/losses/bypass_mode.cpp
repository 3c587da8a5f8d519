/// verl's bypass_mode with loss_type reinforce: l = -sg(w) A lp, w = min(pi/beh, cap) of the token
/// or of the sequence (options.correction), beh what the engine recorded. Without weights it is
/// the plain policy gradient.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

/// Returns w, bounded as the correction says; geometric and segment ratios are means.
at::Tensor weight_of(const SurrogateInput& in, const catalog::Correction& rules) {
  using catalog::CorrectionBound;
  using catalog::CorrectionLevel;
  at::Tensor x = (in.logp - in.old_logp).detach();
  if (rules.level == CorrectionLevel::sequence) x = sequence_sum(in, x);
  if (rules.level == CorrectionLevel::geometric) x = sequence_mean(in, x);
  const at::Tensor w = x.clamp(-k_log_ratio_clamp, k_log_ratio_clamp).exp();
  at::Tensor bounded = w;
  if (rules.high) bounded = bounded.clamp_max(*rules.high);
  if (rules.low) bounded = bounded.clamp_min(*rules.low);
  return rules.bound == CorrectionBound::truncate ? bounded : w * bounded.eq(w);
}

Surrogate bypass_mode_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  s.loss = policy_gradient(
      in, options.correction.is_weighted ? weight_of(in, options.correction) * in.live : in.live);
  return s;
}

}  // namespace

LossForm bypass_mode_loss() { return {bypass_mode_tokens}; }

}  // namespace cohort::algorithms
