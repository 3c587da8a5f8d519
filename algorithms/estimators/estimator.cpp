#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {

std::optional<Estimator> estimator_of(catalog::AdvEstimator x) {
  using catalog::AdvEstimator;
  switch (x) {
#define COHORT_BUILT(id, ...) \
  case AdvEstimator::id:      \
    return id##_estimator();
#define COHORT_PLANNED(id, ...) \
  case AdvEstimator::id:        \
    break;
#include "runtime/catalog/advantage_estimators.def"
#undef COHORT_BUILT
#undef COHORT_PLANNED
  }
  return std::nullopt;
}

std::vector<double> rewards_as_asked(const TrajectoryScores& in) {
  return agentic_reward_norm(in.scores, in.group_of, in.asked);
}

std::vector<double> centred_in_group(const TrajectoryScores& in) {
  RewardNormOptions norm = in.asked;
  norm.mean = NormScope::group;
  norm.std = NormScope::none;
  return agentic_reward_norm(in.scores, in.group_of, norm);
}

std::vector<double> returns_of_turns(const TurnScores& in) {
  std::vector<double> returns(in.rewards.begin(), in.rewards.end());
  for (size_t k = returns.size(); k-- > 1;)
    if (in.trajectory_of[k - 1] == in.trajectory_of[k]) returns[k - 1] += in.gamma * returns[k];
  return returns;
}

}  // namespace cohort::algorithms
