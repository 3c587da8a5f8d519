#pragma once
/// The advantages of a step's trajectories under a config, by the functions that a run's update
/// calls (actors/roles/fill_advantages.hpp). Pure; torch-free header.
#include <memory>
#include <string>
#include <vector>

#include "actors/roles/fill_advantages.hpp"
#include "actors/roles/survivors.hpp"
#include "tools/traj/recompute/logprob_rows.hpp"

namespace cohort::traj {

struct StepAdvantages {
  std::unique_ptr<const std::vector<proto::Trajectory>> batch;  // that `left` points into
  std::unique_ptr<const actors::Survivors> left;
  actors::PackedBatch packed;  // of left->trajectories()
  actors::AdvantageMetrics metrics;

  const std::vector<proto::Trajectory>& trajectories() const { return left->trajectories(); }
};

struct AdvantageSources {
  const config::RunConfig& config;
  double kl_coefficient = 0;
  /// Log-probs of the policy that began the update; null: those recorded at generation.
  const LogprobRows* old = nullptr;
  /// Batches of the steps before, in order; read where a norm is over the run so far.
  const std::vector<std::vector<proto::Trajectory>>& earlier;
};
/// Errors: those of fill_advantages.
Expected<StepAdvantages> advantages_of(const AdvantageSources& sources,
                                       std::vector<proto::Trajectory> batch);

/// Of the advantages of a trajectory's sampled tokens.
struct AdvantageRange {
  double mean = 0, low = 0, high = 0;
  uint64_t tokens = 0;
};
/// `place`: of the trajectory among step.trajectories().
AdvantageRange range_of(const StepAdvantages& step, size_t place);

/// Returns what of the config the stream lacks, one sentence each.
std::vector<std::string> missing_parts(const config::RunConfig& config, const StepAdvantages& step,
                                       bool has_old);

}  // namespace cohort::traj
