#pragma once
/// Reward: scores each trajectory as soon as it is finished and passes it on (to the reference or
/// the trainer). Owner: node, which restarts it (it holds no state that its producer does not still
/// hold). Thread: CAF's scheduler. Bound: the credit of its input link. Messages: RewardActor in
/// roles.hpp. A trajectory's score is the weighted sum of its reward parts; all parts stay in the
/// trajectory.
#include <functional>
#include <string>
#include <vector>

#include "actors/hop.hpp"
#include "actors/roles.hpp"
#include "actors/rollout.hpp"

namespace cohort::actors {

/// One named reward: what it pays for a trajectory, and its weight in the score.
struct RewardFunction {
  std::string name;
  double weight = 1;
  std::function<double(const proto::Trajectory&)> score;
};

/// Returns the built-in reward `type` ("env_return": sum of what the environment paid per turn;
/// "success": 1 when the environment said so; "num_turns": count of turns), or Errc::config naming
/// the known ones.
Expected<RewardFunction> make_reward(const std::string& name, const std::string& type,
                                     double weight);

/// Fills reward_parts, score and token_rewards (the score on the last token, 0 elsewhere).
void score_trajectory(const std::vector<RewardFunction>& rewards, proto::Trajectory& trajectory);

struct RewardOptions {
  HopOptions hop;
  std::vector<RewardFunction> rewards;
  FailureSink fail;
};

class RewardState {
 public:
  static inline const char* name = "reward";
  explicit RewardState(RewardActor::pointer self) : self_(self) {}
  Expected<void> open(RewardOptions options);
  void on_delivery(const DeliveryHandle& delivery);

 private:
  RewardActor::pointer self_;
  RewardOptions options_;
  std::unique_ptr<Hop> hop_;
};

RewardActor::behavior_type reward(RewardActor::stateful_pointer<RewardState> self,
                                  RewardOptions options);

}  // namespace cohort::actors
