/// Generalised advantage estimation (arXiv 1506.02438, eq. 16), from the last token to the first:
///   delta_t = r_t + gamma V_{t+1} - V_t,  A_t = delta_t + gamma lambda A_{t+1}
/// with V and A behind the last token 0 (an answer that was cut off counts as ended). Over a hole
/// verl carries V_{t+1} and A_{t+1}; ROLL goes through it with the critic's values there.
#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {
namespace {

std::vector<double> gae_advantages(const TokenRewards& in) {
  const auto& [cu_seqlens, mask] = in.layout;
  COHORT_CHECK(in.values.size() == mask.size(), "gae: one value per token");
  std::vector<double> advantages(mask.size(), 0);
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    double next_value = 0, next_advantage = 0;
    const auto begin = static_cast<size_t>(cu_seqlens[s]);
    for (auto t = static_cast<size_t>(cu_seqlens[s + 1]); t-- > begin;) {
      if (mask[t] == 0 && in.holes != Holes::through) continue;
      const double delta = in.rewards[t] + in.gamma * next_value - in.values[t];
      advantages[t] = next_advantage = delta + in.gamma * in.lambda * next_advantage;
      next_value = in.values[t];
    }
  }
  return advantages;
}

}  // namespace

Estimator gae_estimator() { return {rewards_as_asked, gae_advantages}; }

}  // namespace cohort::algorithms
