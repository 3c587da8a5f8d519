/// GDPO (arXiv 2601.05242) as verl has it: each reward is normalised in its group as in GRPO, so
/// that one of small spread is not drowned by another; the weighted sum is whitened over the valid
/// tokens.
#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {
namespace {

std::vector<double> gdpo_rewards(const TrajectoryScores& in) {
  RewardNormOptions norm = in.asked;
  norm.mean = norm.std = NormScope::group;
  std::vector<double> result(in.scores.size(), 0);
  for (const ScorePart& part : in.parts) {
    const std::vector<double> normal = agentic_reward_norm(part.scores, in.group_of, norm);
    for (size_t i = 0; i < result.size(); ++i) result[i] += part.weight * normal[i];
  }
  return result;
}

}  // namespace

Estimator gdpo_estimator() { return {gdpo_rewards, discounted_returns, true}; }

}  // namespace cohort::algorithms
