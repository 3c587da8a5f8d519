/// ROLL's step_reinforce: each turn is a sample, whose reward is the discounted return from it on,
/// normalised as reward_normalization asks.
#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {
namespace {

std::vector<double> step_reinforce_rewards(const TurnScores& in) {
  std::vector<uint32_t> groups;
  for (uint32_t trajectory : in.trajectory_of)
    groups.push_back(in.trajectories.group_of[trajectory]);
  return agentic_reward_norm(returns_of_turns(in), groups, in.trajectories.asked);
}

}  // namespace

Estimator step_reinforce_estimator() {
  return {nullptr, turn_returns, false, step_reinforce_rewards};
}

}  // namespace cohort::algorithms
