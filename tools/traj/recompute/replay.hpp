#pragma once
/// `traj replay`: the updates of a recorded run once more, from a checkpoint and the stream, with
/// each parameter hash beside the recorded one (docs/replay.md).
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/error.hpp"
#include "tools/traj/recompute/step_range.hpp"

namespace cohort::traj {

struct ReplayOptions {
  std::string run;
  StepRange steps;  // no bound: all that can be replayed
  std::optional<uint64_t> checkpoint;
  bool is_json = false;
  /// How far a tensor may be off, as a share of the way that training took it (closeness.hpp).
  /// None: to the bit, or k_near if the run cannot be replayed to the bit (why_not_to_the_bit).
  std::optional<double> tolerance = {};
};
constexpr double k_near = 0.05;

/// Errc::corrupt at the first step that differs.
Expected<void> replay(const ReplayOptions& options);

}  // namespace cohort::traj
