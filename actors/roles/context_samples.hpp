#pragma once
/// A trajectory as a model reads it: each of its contexts (proto::contexts_of) is a sequence of its
/// own, and so a sample of its own. No actor in it.
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/compute/train/train_engine.hpp"
#include "runtime/proto/trajectory.hpp"

namespace cohort::actors {

/// Tokens of one context of a trajectory of a batch.
struct ContextRange {
  size_t place = 0;  // of the trajectory in the batch
  proto::TokenRange tokens;
};
/// Returns the contexts of trajectories [first, end), in their order.
std::vector<ContextRange> contexts_of(std::span<const proto::Trajectory> batch, size_t first,
                                      size_t end);

/// Returns where each context begins if all trajectories are laid one behind the other, and at last
/// where the last one ends.
std::vector<int32_t> context_cu_seqlens(std::span<const proto::Trajectory> batch);

/// Appends a sample of each context, with no columns but tokens and mask; they point into it.
void add_samples(const proto::Trajectory& trajectory, std::vector<compute::TrainSample>& samples);

/// Collective. Returns a row for each trajectory: log-probability of each token that its mask has,
/// given those before it in its context; else 0. Errors are the engine's.
Expected<std::vector<std::vector<float>>> log_probs_of(
    compute::TrainEngine& engine, std::span<const proto::Trajectory* const> batch,
    compute::AdapterUse use = compute::AdapterUse::on);

}  // namespace cohort::actors
