/// KL-Cov (arXiv 2505.22617, section 4.3): l = -rho A, and + coef |lp - old| on the marked tokens:
/// the max(1, int(ratio N)) of largest covariance over the mini-batch (verl: of its micro-batch).
/// It has no clip.
#include <algorithm>
#include <numeric>

#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

/// Two passes of one policy may differ by this much; such a difference has no sign, and so no
/// gradient: else the split of the mini-batch, which rounds, would choose it.
constexpr double k_rounding = 1e-5;

Surrogate kl_cov_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  s.loss = -(s.ratio * in.advantages);
  if (in.marks.defined()) {
    const at::Tensor distance = (in.logp - in.old_logp).abs();
    s.loss = s.loss + options.ppo_kl_coef * in.marks * distance * distance.gt(k_rounding);
  }
  return s;
}

std::vector<uint8_t> kl_cov_picks(const PickInput& in, const PolicyLossOptions& options) {
  const std::vector<double> cov = covariances(in);
  std::vector<size_t> order(cov.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return cov[a] > cov[b]; });
  std::vector<uint8_t> marks(cov.size());
  const size_t count = pick_count(options.kl_cov_ratio, cov.size());
  for (size_t i = 0; i < count; ++i) marks[order[i]] = 1;
  return marks;
}

}  // namespace

LossForm kl_cov_loss() { return {kl_cov_tokens, kl_cov_picks}; }

}  // namespace cohort::algorithms
