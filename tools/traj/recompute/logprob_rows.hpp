#pragma once
/// Log-probabilities of a step's trajectories under a policy that the stream does not have: what
/// `actor-node logprobs` prints of the rows that `traj export --step N --kind train` writes.
#include <map>
#include <string>
#include <vector>

#include "runtime/proto/trajectory.hpp"

namespace cohort::traj {

/// By trajectory, one entry per token; the first, which has no prefix, is 0.
struct LogprobRows {
  std::map<proto::TrajectoryKey, std::vector<float>> logp, entropy;
};

/// Reads one JSON object per line and trajectory, in the order of `trajectories`: "logprobs" and
/// optionally "entropy", of n - 1 tokens (all but the first) or of n. Returns Errc::config or
/// Errc::not_found, naming file:line and the key.
Expected<LogprobRows> read_logprobs(const std::string& path,
                                    const std::vector<proto::Trajectory>& trajectories);

}  // namespace cohort::traj
