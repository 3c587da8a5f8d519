#pragma once
/// A training step as a stream has it, and the two configs under which it can be looked at: the
/// run's own, and that with the user's overrides. Reads files; one thread. Bound: the trajectories
/// of one step.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/config/run_config.hpp"
#include "runtime/proto/trajectory.hpp"
#include "runtime/stream/reader.hpp"

namespace cohort::traj {

struct StepQuestion {
  std::string run;  // run folder or stream folder
  uint64_t step = 0;
  std::string estimator;               // name of the run's dialect; empty: the run's own
  std::string loss;                    // likewise
  std::vector<std::string> overrides;  // key=value, in the run's dialect
  bool is_own() const { return estimator.empty() && loss.empty() && overrides.empty(); }
};

struct RecordedStep {
  config::RunConfig own, asked;
  bool is_imported = false;  // `traj import` made the run: there are no rows and no policy
  /// The newest record of each training trajectory, in order of (group, index).
  std::vector<proto::Trajectory> trajectories;
  /// Of each step before, what its update was given, if one of the configs has a running norm.
  std::vector<std::vector<proto::Trajectory>> earlier;
  /// The numbers of the step's row; empty: the stream has no row of it.
  std::map<std::string, double> row;

  /// Returns what the update was given: all but the groups that dynamic sampling left out.
  std::vector<proto::Trajectory> batch() const;
  /// Returns the coefficient of the KL reward in this step: of the row, else the config's first.
  double kl_coefficient() const;
};

/// Returns the run's own config: the last that its stream has.
Expected<config::RunConfig> recorded_config(stream::Reader& reader, const std::string& run);
/// Whether `traj import` made the run: its config names no tokenizer of theirs.
Expected<bool> is_imported(stream::Reader& reader, const std::string& run);

/// Errors: Errc::not_found (no such run, step, or config in the stream), Errc::corrupt (damaged
/// records), Errc::config (overrides).
Expected<RecordedStep> read_step(const StepQuestion& question);

}  // namespace cohort::traj
