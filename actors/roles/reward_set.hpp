#pragma once
/// The rewards of a run, from the config: what each is called, what it weighs, and who computes it.
/// Opened once before the run; the reward actor uses them, and its successor after a restart.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/proto/trajectory.hpp"
#include "runtime/tasks/text_reward.hpp"

namespace cohort::actors {

/// One named part of the score: either a number of the trajectory itself, or a scorer's.
struct RewardFunction {
  std::string name;
  double weight = 1;
  std::function<double(const proto::Trajectory&)> of_trajectory;
  std::shared_ptr<tasks::Reward> scorer;
  std::vector<std::string> tags = {};  // environments it scores; empty: all (rlvr: see PromptSet)
};

/// Returns the rewards in the order of their names. Errors (Errc::config, not_found, unsupported)
/// name the key.
Expected<std::vector<RewardFunction>> open_rewards(const config::RunConfig& config);

}  // namespace cohort::actors
