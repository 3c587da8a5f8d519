#pragma once
/// The commands of traj that compute: a recorded step under another estimator, loss or reward, by
/// the functions of a run. Each prints to stdout; what a reader should know besides goes to stderr.
/// Errors as those of traj_commands.hpp.
#include <string>

#include "tools/actor-node/reward_input.hpp"
#include "tools/traj/recompute/recorded_step.hpp"

namespace cohort::traj {

enum class Output : uint8_t {
  table,
  trajectories,  // one JSON object per trajectory
  tokens,        // one JSON object per token that the policy sampled
};

struct AdvantagesOptions {
  StepQuestion question;
  Output output = Output::table;
};
/// Under the run's own config: Errc::corrupt if mean or deviation are not those of the step's row.
Expected<void> advantages(const AdvantagesOptions& options);

struct LossOptions {
  StepQuestion question;
  std::string old_logprobs,
      current_logprobs;  // files of read_logprobs(); empty: see docs/stream.md
  Output output = Output::table;
};
Expected<void> loss(const LossOptions& options);

struct RescoreOptions {
  StepQuestion question;
  RewardWords reward;  // its plugin may be the path of a config: that one's rewards
  Output output = Output::table;
};
Expected<void> rescore(const RescoreOptions& options);

}  // namespace cohort::traj
