/// Clip-Cov (arXiv 2505.22617, section 4.2): PPO without the marked tokens. A token is a candidate
/// where lb < cov < ub, cov = (A - mean A)(lp - mean lp) over the mini-batch, and the clip does not
/// hold it already; of these max(1, int(ratio N)) are drawn. verl takes means and N of its
/// micro-batch; here they are the mini-batch's.
#include <algorithm>
#include <cmath>

#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

Surrogate clip_cov_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  s.loss = clipped_surrogate(in, options, s);
  if (in.marks.defined()) {
    s.per_token.push_back({"actor/covfrac", in.marks});
    s.loss = s.loss * (1 - in.marks);
  }
  return s;
}

bool is_clipped(const PickInput& in, const PolicyLossOptions& options, size_t t) {
  const double ratio = std::exp(in.logp[t] - in.old_logp[t]);
  const double bounded = std::clamp(ratio, 1 - options.pg_clip_low, 1 + options.pg_clip_high);
  return -in.advantages[t] * bounded > -in.advantages[t] * ratio;
}

std::vector<uint8_t> clip_cov_picks(const PickInput& in, const PolicyLossOptions& options) {
  const std::vector<double> cov = covariances(in);
  std::vector<size_t> candidates;
  for (size_t t = 0; t < cov.size(); ++t)
    if (cov[t] > options.clip_cov_lb && cov[t] < options.clip_cov_ub && !is_clipped(in, options, t))
      candidates.push_back(t);
  std::vector<uint8_t> marks(cov.size());
  Rng rng = in.rng;
  const size_t count = std::min(pick_count(options.clip_cov_ratio, cov.size()), candidates.size());
  for (size_t i = 0; i < count; ++i) {  // the first steps of a shuffle
    std::swap(candidates[i], candidates[i + rng.below(candidates.size() - i)]);
    marks[candidates[i]] = 1;
  }
  return marks;
}

}  // namespace

LossForm clip_cov_loss() { return {clip_cov_tokens, clip_cov_picks}; }

}  // namespace cohort::algorithms
