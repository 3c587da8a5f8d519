/// GMPO (arXiv 2507.20673, eq. 4): d = s min(s (lp - old), s clip(lp - old, -low, high)), s the
/// sign of A; rho_i = exp(mean d), A_i the mean of A; the loss is the mean over sequences of -A_i
/// rho_i. As in verl a sequence without a token counts in that mean, and weights of tokens are
/// their geometric mean over the sequence, exp(mean ln(w + 1e-10)).
#include <algorithm>

#include "algorithms/losses/surrogate.hpp"

namespace cohort::algorithms {
namespace {

constexpr double k_log_floor = 1e-10;  // verl's: a weight of 0 has a logarithm

Surrogate geo_mean_tokens(const SurrogateInput& in, const PolicyLossOptions& options) {
  Surrogate s = with_ratio(in, options);
  const at::Tensor sign = in.advantages.sign(), drift = in.logp - in.old_logp;
  const at::Tensor clipped = drift.clamp(-options.pg_clip_low, options.pg_clip_high);
  const at::Tensor bounded = sign * at::min(sign * drift, sign * clipped);
  s.per_token = {{"actor/clipfrac", bounded.ne(drift) * in.live}};
  const at::Tensor ratio = sequence_mean(in, bounded * in.live).exp();
  s.loss = -(sequence_mean(in, in.advantages) * ratio) * in.live;
  if (in.weights.defined()) {
    s.loss = s.loss * sequence_mean(in, (in.weights + k_log_floor).log() * in.live).exp();
    s.has_weights = true;
  }
  const double rows = std::max(in.counts.rows, in.counts.sequences);
  const at::Tensor tokens = sequence_sum(in, in.live).clamp_min(1);
  s.aggregation = in.live / tokens * (rows > 0 ? 1 / rows : 0);
  return s;
}

}  // namespace

LossForm geo_mean_loss() { return {geo_mean_tokens}; }

}  // namespace cohort::algorithms
