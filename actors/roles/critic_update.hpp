#pragma once
/// The critic's half of PPO: the values of a step's trajectories, and the optimizer steps towards
/// their returns R = A + V, A the advantages before whitening and clip (docs/algorithms.md, "PPO
/// with a critic"). No actor in it. Not thread-safe: the critic's worker owns one.
/// What it computes of a batch with values is what the policy's updater computes of it: rewards, KL
/// in the reward and its coefficient, advantages; so neither tells the other.
#include <cstdint>
#include <string>
#include <vector>

#include "actors/roles/policy_update.hpp"
#include "actors/roles/step_sums.hpp"
#include "actors/roles/survivors.hpp"

namespace cohort::actors {

class CriticUpdater {
 public:
  explicit CriticUpdater(config::RunConfig config);
  /// Fills `values` of all that is trained on: entry t is the value before token t, from the first
  /// sampled token on, also in the holes between answers, which ROLL's gae goes through; 0 before
  /// it. Collective.
  Expected<void> value(compute::TrainEngine& engine, std::vector<proto::Trajectory>& batch) const;
  /// Runs the critic's optimizer steps of one pipeline step. `batch` is sorted by (group, index)
  /// and has values. Metrics critic/*. Errors as PolicyUpdater::update.
  Expected<control::UpdateReport> update(compute::TrainEngine& engine,
                                         const control::UpdateRequest& request,
                                         const std::vector<proto::Trajectory>& batch);
  /// Its counters, as JSON, and back. Errc::corrupt when a field is missing.
  std::string state_json() const;
  Expected<void> restore(const std::string& state);

 private:
  Expected<void> run_epochs(compute::TrainEngine& engine, const Survivors& left,
                            const PackedBatch& packed, StepSums& sums);
  config::RunConfig config_;  // its advantages are raw
  algorithms::KlController kl_;
  RunningScores running_;
  uint64_t steps_ = 0;            // optimizer steps done: what the learning rate counts
  int64_t nonfinite_in_row_ = 0;  // optimizer steps that were left out, up to the last one
  plan::FirstFacts first_;        // of the first of them, until its update has told them
};

}  // namespace cohort::actors
