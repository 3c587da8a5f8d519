#pragma once
/// What a policy loss reads of a token beyond its advantage: weights and masks of a correction
/// (algorithms/correction.hpp), and marks (algorithms/losses/surrogate.hpp). Every rank computes
/// them from the whole batch, so they depend on no split of it. No actor in it; the updater's
/// thread.
#include <functional>
#include <utility>
#include <vector>

#include "actors/roles/context_samples.hpp"
#include "actors/roles/policy_update.hpp"
#include "runtime/base/rng.hpp"

namespace cohort::actors {

/// Puts the gap between the recorded and the recomputed old log-probs into `report`
/// (rollout_corr/*), and what train_infer_correction makes of it into `packed`: weights, and the
/// mask without the tokens that a rule takes out. Does nothing where the recorded ones are the old
/// ones: then the gap is the ratio's.
void correct_batch(const config::RunConfig& config, const std::vector<proto::Trajectory>& batch,
                   PackedBatch& packed, control::UpdateReport& report);

/// length_loss_weight: puts length_weights (sample_masks.hpp) of each optimizer batch's answers
/// that train into packed.weights, as factors. `batches`: [first, end) into `batch`.
void weigh_lengths(const config::RunConfig& config, const std::vector<proto::Trajectory>& batch,
                   const std::vector<std::pair<size_t, size_t>>& batches, PackedBatch& packed);

/// Marks the tokens of whole trajectories, for a loss that asks which: topr those with a score
/// above 0, luffy demonstrations (metric proto::k_demonstration above 0).
void mark_trajectories(const config::RunConfig& config, const std::vector<proto::Trajectory>& batch,
                       PackedBatch& packed);

/// Returns the contexts of trajectories [first, end) of `batch` that train.
std::vector<ContextRange> trained_contexts(const std::vector<proto::Trajectory>& batch,
                                           const PackedBatch& packed,
                                           std::pair<size_t, size_t> range);

/// Returns a sample for each of them, in their order; they point into both.
std::vector<compute::TrainSample> policy_samples(const std::vector<proto::Trajectory>& batch,
                                                 const PackedBatch& packed,
                                                 std::pair<size_t, size_t> range);

/// Returns the random numbers of a run's first passes; forked by the optimizer steps done before.
Rng picks_rng(const config::RunConfig& config);

/// What a mini-batch needs of its log-probs before its update: marks of a loss with
/// need::first_pass, and rejections where the ratio is to the recorded log-probs (bypass_mode).
class FirstPass {
 public:
  explicit FirstPass(const config::RunConfig& config);
  bool is_needed() const { return has_picks_ || has_rejections_; }
  /// Collective. One forward pass over `samples`, whose marks and masks then point into this
  /// object, until the next call.
  Expected<void> run(compute::TrainEngine& engine, std::vector<compute::TrainSample>& samples,
                     Rng rng);
  /// What follows from the log-probs of that pass, one row per sample.
  void apply(const std::vector<std::vector<float>>& logp,
             std::vector<compute::TrainSample>& samples, Rng rng);

 private:
  void pick(const std::vector<std::vector<float>>& logp, std::vector<compute::TrainSample>& samples,
            Rng rng);
  void reject(const std::vector<std::vector<float>>& logp,
              std::vector<compute::TrainSample>& samples);

  const config::RunConfig& config_;
  bool has_picks_ = false, has_rejections_ = false;
  std::vector<std::vector<float>> marks_;
  std::vector<std::vector<uint8_t>> masks_;
};

/// Returns whether a sample has a token that trains.
bool has_response(const std::vector<compute::TrainSample>& samples);

}  // namespace cohort::actors
