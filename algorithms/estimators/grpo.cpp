/// GRPO (DeepSeekMath, arXiv 2402.03300, eq. 3 of section 4.1.2) as ROLL has it: answers to one
/// prompt are always normalised by their own mean and deviation; agentic runs say by
/// reward_normalization what is compared. verl's norm_adv_by_std_in_grpo false leaves out the
/// division.
#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {
namespace {

std::vector<double> grpo_rewards(const TrajectoryScores& in) {
  RewardNormOptions norm = in.asked;
  if (in.is_rlvr) norm.mean = norm.std = NormScope::group;
  return agentic_reward_norm(in.scores, in.group_of, norm);
}

}  // namespace

Estimator grpo_estimator() { return {grpo_rewards}; }

}  // namespace cohort::algorithms
