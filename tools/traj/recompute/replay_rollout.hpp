#pragma once
/// `traj replay --rollout`: the recorded prompts and keys of a run, played through the generation
/// engine under the weights that sampled them; each token, and the bits of its log-probability, is
/// compared with the recorded one. Bound: the chosen trajectories, and one model.
#include <cstdint>
#include <string>

#include "runtime/base/error.hpp"
#include "tools/traj/recompute/step_range.hpp"

namespace cohort::traj {

struct RolloutReplayOptions {
  std::string run;
  StepRange steps;
  uint64_t limit = 0;  // trajectories; 0: all
};
/// Prints a line per policy, and `replay: N of M trajectories equal` last. Returns Errc::corrupt
/// naming the first difference; Errc::not_found if there are no weights for some; Errc::unsupported
/// for runs whose tokens this engine does not promise.
Expected<void> replay_rollout(const RolloutReplayOptions& options);

}  // namespace cohort::traj
