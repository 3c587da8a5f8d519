#pragma once
/// Packing of sequences into micro-batches, balanced over threads. Pure, deterministic.
///
/// SPLIT-1: every index is in exactly one micro-batch.
/// SPLIT-2: a micro-batch holds at most max_tokens tokens and at most max_sequences sequences.
/// SPLIT-3: same lengths and options, same packing; no micro-batch is empty.
/// Longest-processing-time rule (Graham 1969): longest first into the emptiest micro-batch; then
/// longest micro-batch first onto the least loaded thread. The micro-batch count is a multiple of
/// `threads` when there are enough sequences, so that no thread waits for a last one alone.
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::plan {

struct PackOptions {
  uint64_t max_tokens = 0;     // per micro-batch
  uint64_t max_sequences = 0;  // per micro-batch; 0 = no bound
  uint32_t threads = 1;
};

struct MicroBatch {
  std::vector<uint32_t> indices;  // into lengths, ascending
  uint64_t tokens = 0;
  uint32_t thread = 0;  // < threads
  bool operator==(const MicroBatch&) const = default;
};

/// Returns micro-batches ordered by thread, then by their first index. Returns
/// Errc::invalid_argument for zero bounds or a zero length, Errc::capacity if one sequence alone is
/// over max_tokens (names it).
Expected<std::vector<MicroBatch>> pack(std::span<const uint32_t> lengths,
                                       const PackOptions& options);

/// Returns the tokens of the most loaded thread over the mean of all threads, 1 = perfectly even.
double imbalance(std::span<const MicroBatch> batches, uint32_t threads);

/// Aborts the process if SPLIT-1 or SPLIT-2 does not hold.
void assert_invariants(std::span<const MicroBatch> batches, std::span<const uint32_t> lengths,
                       const PackOptions& options);

}  // namespace cohort::plan
