#pragma once
/// `traj replay --actors`: the recorded trajectories of a run through live reward, reference and
/// trainer actors, in place of rollouts; each parameter hash beside the recorded one
/// (docs/replay.md). Runs `actor-node`, which lies beside traj, into a folder that goes away.
#include <string>

#include "runtime/base/error.hpp"

namespace cohort::traj {

/// Prints a line per step, and `replay: N of N steps equal` last. Errc::corrupt names the first
/// step that differs; Errc::unsupported if the run went on under another config. `is_paced`: at the
/// recorded speed.
Expected<void> replay_actors(const std::string& run, bool is_paced);

}  // namespace cohort::traj
