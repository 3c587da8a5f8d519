#pragma once
/// Pairs of answers of pipelines dpo and rm as an optimizer step: the trajectories (group, 0) and
/// (group, 1) of a row are its chosen and its rejected answer (docs/preference.md). No actor in it;
/// the updater's thread. PREF-1 of algorithms/preference.hpp: the loss divides by the pairs of the
/// whole step, and the two answers of a pair are in one micro-batch (PACK-3), so that neither
/// micro-batches nor cards change it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/roles/first_facts.hpp"
#include "actors/roles/scored_tokens.hpp"
#include "runtime/compute/train/train_engine.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/control/messages.hpp"
#include "runtime/proto/trajectory.hpp"

namespace cohort::actors {

struct PairOptions {
  const config::RunConfig& config;
  std::optional<int64_t> pad_id;  // rm: no score is read at this token
};

/// The pairs of a batch that both have a token which counts. Pipeline rm: samples are those of
/// scored_tokens.hpp.
class PairBatch {
 public:
  /// `batch`: sorted by (group, index); it outlives the object. Under an adapter the reference is
  /// the model below it, and is computed here: collective. Errors are those of log_probs().
  static Expected<PairBatch> open(const PairOptions& options, compute::TrainEngine& engine,
                                  const std::vector<proto::Trajectory>& batch);

  /// Two for each pair; they point into this object and the batch.
  const std::vector<compute::TrainSample>& samples() const { return samples_; }
  /// The same with their trajectories, for the first step's checks; none for rm, whose samples have
  /// scores in the place of log-probabilities.
  std::vector<FirstSample> first_samples() const;
  /// Tells the step how many pairs it has, and how many were left out, with `prefix` ("dpo/").
  void write(const std::string& prefix, control::UpdateReport& report) const;

 private:
  Expected<void> refer(compute::TrainEngine& engine);

  std::vector<compute::TrainSample> samples_;
  std::vector<const proto::Trajectory*> answers_;  // of each sample
  std::vector<ScoredTokens> scored_;               // rm: of each sample
  std::vector<std::vector<float>> reference_;  // of each sample, where the batch does not have it
  uint64_t left_out_ = 0;                      // pairs
  double reference_seconds_ = 0;
};

/// Adds val/loss, val/accuracy, val/margin, … of held-out pairs to the report. Collective.
Expected<void> measure_pairs(const config::RunConfig& config, compute::TrainEngine& engine,
                             const PairBatch& pairs, control::UpdateReport& report);

}  // namespace cohort::actors
