#pragma once
/// `traj replay` where the host's sums are not those of the run to the bit (devices, relaxed sums,
/// another BLAS): each gradient norm is compared, and, where the run has a checkpoint, each tensor,
/// by how far it is off on the way that training took it (closeness.hpp). The replay goes on from
/// the recorded checkpoint, so that what is off does not add up beyond one stretch.
#include <cstdint>
#include <optional>
#include <string>

#include "tools/traj/recompute/trained_run.hpp"

namespace cohort::traj {

struct NearReplayOptions {
  uint64_t first = 0, last = 0;  // steps that count; those behind the checkpoint are done, too
  double tolerance = 0;
  std::optional<std::string> why;  // the run has no bits to be replayed
  bool is_json = false;
};

/// Errc::corrupt at the first step that is beyond the tolerance.
Expected<void> replay_near(TrainedRun& run, const actors::Checkpoint& from,
                           const NearReplayOptions& options);

}  // namespace cohort::traj
