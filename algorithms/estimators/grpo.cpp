/// GRPO (DeepSeekMath, arXiv 2402.03300, eq. 3 of section 4.1.2) as ROLL has it: answers to one
/// prompt are always normalised by their own mean and deviation; agentic runs say by
/// reward_normalization what is compared. verl leaves a group of one as it is, here it is 0.
#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {
namespace {

std::vector<double> grpo_rewards(const TrajectoryScores& in) {
  if (!in.is_rlvr) return rewards_as_asked(in);
  return agentic_reward_norm(in.scores, in.group_of, {NormScope::group, NormScope::group});
}

}  // namespace

Estimator grpo_estimator() { return {grpo_rewards}; }

}  // namespace cohort::algorithms
