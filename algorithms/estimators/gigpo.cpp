/// GiGPO (arXiv 2505.10978, section 4) as ROLL has it: the reward of a turn is
///   episode_weight norm(score of its trajectory) + turn_weight norm(G),
/// G the discounted return from the turn on, compared with the turns of the same group that began
/// at the same observation. Both norms are the one that reward_normalization asks for. Each token
/// of the turn's answer gets it.
#include <map>

#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {
namespace {

std::vector<double> gigpo_rewards(const TurnScores& in) {
  const std::vector<double> episodes = rewards_as_asked(in.trajectories);
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> states;
  std::vector<uint32_t> anchors;
  for (size_t k = 0; k < in.rewards.size(); ++k) {
    const uint32_t group = in.trajectories.group_of[in.trajectory_of[k]];
    const auto id = static_cast<uint32_t>(states.size());
    anchors.push_back(states.try_emplace({group, in.state_of[k]}, id).first->second);
  }
  std::vector<double> rewards =
      agentic_reward_norm(returns_of_turns(in), anchors, in.trajectories.asked);
  for (size_t k = 0; k < rewards.size(); ++k)
    rewards[k] = in.episode_weight * episodes[in.trajectory_of[k]] + in.turn_weight * rewards[k];
  return rewards;
}

}  // namespace

Estimator gigpo_estimator() { return {nullptr, turn_returns, false, gigpo_rewards}; }

}  // namespace cohort::algorithms
