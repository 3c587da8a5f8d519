#pragma once
/// One lane's end of its tensor-parallel group: what the ranks tell each other in an iteration of
/// generation. Rank 0 leads: it announces the rows of every iteration in one message; followers
/// remember nothing between iterations, so that evictions, a freed cache or a moved trajectory need
/// no message of their own (block tables are 4 bytes per 16 tokens whose keys are read anyway).
/// Inside the forward every rank makes the same exchanges in the same order. Owner and thread: one
/// lane. Bounds: buffers of `size` times the rows of a block of activations, plus one announcement.
///
/// TP-2: every rank computes the same iterations, and only if all serve the same weight version
/// from caches of the same size: agree() says the same on all of them.
/// TP-3: partial sums are added in rank order on every rank (COLL-1): activations are the same bits
/// on all ranks, and GEN-1 holds for a given size.
/// TP-4: after the first error of the group every call fails with that error; nothing hangs
/// (COLL-2).
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/compute/generate/generation_runner.hpp"

namespace cohort::compute {

struct TpLimits {  // what an announcement may hold; the same on every rank
  int64_t vocab_size = 0;
  int64_t batch_tokens = 0;
  int64_t max_context = 0;
  int64_t block_tokens = 0;
};

/// What a rank serves; iterations run only where all ranks' are equal.
struct TpState {
  uint64_t weight_version = 0;
  int64_t block_count = 0;  // of the lane; 0: no cache
  bool is_ready = false;    // weights and cache are on the card
  bool operator==(const TpState&) const = default;
};

struct TpOrder {
  enum class Kind : uint32_t { batch = 1, beat = 2, end = 3 };
  Kind kind = Kind::end;
  std::span<const BatchChunk> batch;  // valid until the next order
};

class TpLink {
 public:
  TpLink(std::shared_ptr<Collectives> group, const TpLimits& limits);
  int rank() const { return group_->rank(); }
  int size() const { return group_->size(); }
  const TpLimits& limits() const { return limits_; }

  // -- the leader says what comes next
  Expected<void> announce(std::span<const BatchChunk> batch);
  /// Keeps waiting followers from running into the group's timeout; shows a dead one.
  Expected<void> beat();
  /// The lane ends. Followers end without an error.
  void end();
  // -- a follower waits for it. Errc::protocol for an announcement that breaks a limit.
  Expected<TpOrder> next();

  // -- all ranks, inside an iteration
  /// Returns Errc::placement, the same on every rank, naming the first rank whose state is not
  /// that of the leader. The group stays usable.
  Expected<void> agree(const TpState& mine);
  /// Rows [rows][width] for this rank's partial sums, until add_partials().
  float* partials(int64_t rows, int64_t width);
  /// x += partials of rank 0 + of rank 1 + …; x is [rows][width].
  Expected<void> add_partials(float* x, int64_t rows, int64_t width);
  /// Row i of x [rows][width] is filled on rank owners[i]; afterwards it is on every rank.
  Expected<void> spread_rows(std::span<const int32_t> owners, float* x, int64_t width);
  /// Brings columns of all ranks together on the leader: [rows][size * width] tight, rank by rank.
  /// Returns null elsewhere. `mine` is [rows] rows, `ld` floats apart.
  Expected<const float*> gather_columns(const float* mine, int64_t rows, int64_t width, int64_t ld);

  /// Ends the group: this rank cannot go on (its own arithmetic failed, or it stops). Thread-safe;
  /// the others see it as a rank that is gone.
  void abort(const Error& why);
  const std::optional<Error>& error() const { return error_; }

 private:
  Expected<void> keep(Expected<void> result);
  Expected<void> send(TpOrder::Kind kind);
  Expected<TpOrder> decode();

  std::shared_ptr<Collectives> group_;
  TpLimits limits_;
  std::optional<Error> error_;
  std::vector<std::byte> message_;
  std::vector<int32_t> tokens_, blocks_;
  std::vector<BatchChunk> batch_;
  std::vector<float> gathered_;  // [size][rows * width]
  std::vector<float> mine_, columns_;
  std::vector<std::span<std::byte>> views_;
};

}  // namespace cohort::compute
