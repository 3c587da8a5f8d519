#pragma once
/// From k cards per node to k': the batch shrinks with the cards and the learning rate with the
/// batch (linear rule), as Ascend's guide does from 8 to 2 cards. Pure.
///   b' = b*k'/k, lr' = lr*b'/b, world_size' = k'*nodes, nproc_per_node' = k'.
/// Stated there for A2 and A3, and for a batch that was k times the one-card batch.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::doctor {

struct RescaleOptions {
  uint32_t from = 0, to = 0;  // cards of one node
  uint32_t nodes = 1;
  uint64_t batch = 0;  // global batch of one optimizer step
  double learning_rate = 0;
  uint64_t unit = 1;  // b' must be a multiple of it: cards·nodes, or group size
};

struct Rescaled {
  uint64_t batch = 0;
  double learning_rate = 0;
  uint32_t world_size = 0, nproc_per_node = 0;
};

/// Returns Errc::config when b*k'/k is no whole number, or no multiple of `unit`, with the batches
/// and card counts near that work, e.g. "batch 30*2/8 = 7.5 is not whole; nearest batches that
/// work: 28, 32; card counts that work: 4, 8"; Errc::invalid_argument for a zero or a number out of
/// range (cards and nodes 1…32768, batch 1…2^40).
Expected<Rescaled> rescale(const RescaleOptions& options);

}  // namespace cohort::doctor
