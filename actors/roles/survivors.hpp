#pragma once
/// What of a batch is trained on: all but the masked (REWARD-3), greedy answers, and those that
/// have nobody to be compared with. Where each stood in the batch without greedy answers, so that a
/// masked one moves no other to another optimizer step. Pure.
#include <cstddef>
#include <utility>
#include <vector>

#include "actors/roles/fill_advantages.hpp"

namespace cohort::actors {

class Survivors {
 public:
  /// `batch` outlives it.
  Survivors(const config::RunConfig& config, const std::vector<proto::Trajectory>& batch);
  const std::vector<proto::Trajectory>& trajectories() const { return is_cut_ ? kept_ : all_; }
  /// Returns the greedy answer's score of each trajectory's group; empty: there are none.
  const std::vector<double>& baselines() const { return baselines_; }
  /// Returns how many are left out: the last of their groups, or without a baseline.
  size_t lone() const { return lone_; }
  /// Returns [first, end) into trajectories() of each optimizer batch, in order: as few as there
  /// can be of at most `size` places, and none has two places more than another. Empty ones too,
  /// for a learning rate moves with them.
  std::vector<std::pair<size_t, size_t>> optimizer_batches(size_t size) const;

 private:
  const std::vector<proto::Trajectory>& all_;
  bool is_cut_ = false;
  std::vector<proto::Trajectory> kept_;
  std::vector<size_t> places_;
  size_t total_ = 0;  // places of the batch
  std::vector<double> baselines_;
  size_t lone_ = 0;
};

}  // namespace cohort::actors
