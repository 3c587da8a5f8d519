#pragma once
/// `traj what-if`: the updates of a recorded run from a step on under changed keys, on the same
/// trajectories, each beside the recorded update (docs/replay.md). Bound: as TrainedRun.
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "tools/traj/recompute/step_range.hpp"

namespace cohort::traj {

struct WhatIfOptions {
  std::string run;
  StepRange steps;                     // the first is the first that is changed
  std::vector<std::string> overrides;  // KEY=VALUE of the run's dialect, one at least
  std::vector<std::string> metrics;    // to show; none: those that say how an update went
  bool is_json = false;
};

/// Prints a line per step, the recorded numbers and the computed ones. Errc::corrupt if a step
/// before the first does not replay: then the comparison would be with something else.
Expected<void> what_if(const WhatIfOptions& options);

}  // namespace cohort::traj
