/// LUFFY (arXiv 2504.14945): demonstrations (marked) stand in the group of a prompt. Their tokens
/// have no behaviour probability, which is taken for 1, and a shaped ratio f(p) = p/(p + gamma): l
/// = -A f(p), p = exp(lp), not clipped. The other tokens are PPO's, without a dual clip.
#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate luffy_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  s.loss = clipped_surrogate(in, options, s);
  if (in.marks.defined()) {
    const at::Tensor p = in.logp.exp();
    const at::Tensor shaped = -(in.advantages * p / (p + options.shaping_gamma));
    s.loss = at::where(in.marks.gt(0), shaped, s.loss);
  }
  return s;
}

}  // namespace

LossForm luffy_loss() { return {luffy_tokens}; }

}  // namespace cohort::algorithms
