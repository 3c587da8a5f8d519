#pragma once
/// From a planned transfer to bytes: where the sender reads and the receiver writes. Pure.
///
/// A transfer's bytes travel packed: its units in order, each unit its chunk of the piece's box
/// taken flat. The sender packs by source_parts(), the receiver unpacks by target_parts(); in the
/// gathering modes the receiver may keep a part only, or nothing.
/// Keeps a reference to the plan, which must outlive it. Thread-safe after construction.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plan/reshard/reshard.hpp"
#include "runtime/plan/reshard/reshard_shards.hpp"

namespace cohort::plan {

/// `count` copies of `bytes`: packed + i * packed_stride <-> shard + i * shard_stride.
struct CopyRun {
  uint64_t packed = 0, shard = 0, bytes = 0, count = 1;
  uint64_t packed_stride = 0, shard_stride = 0;
  bool operator==(const CopyRun&) const = default;
};

class ReshardCopies {
 public:
  explicit ReshardCopies(const ReshardPlan& plan);
  const ReshardPlan& plan() const { return *plan_; }
  /// Bytes of a card's buffer in either layout; 0 when it is not in it.
  uint64_t bytes_before(uint32_t card) const;
  uint64_t bytes_after(uint32_t card) const;
  uint64_t packed_bytes(const ReshardTransfer& x) const;

  /// One unit of a transfer: a tensor, and the part of it that travels, as runs in the whole
  /// tensor.
  struct Unit {
    uint64_t layer = 0;
    uint32_t expert = 0;
    uint64_t packed = 0;  // where it begins
    std::vector<CopyRun> runs;
  };
  std::vector<Unit> units(const ReshardTransfer& x) const;
  /// By tensor, what the sender reads (before, or after when x.source says so; not for staging) and
  /// what the receiver writes: offsets from where the card's part of it begins.
  std::vector<Unit> source_parts(const ReshardTransfer& x) const;
  std::vector<Unit> target_parts(const ReshardTransfer& x) const;

 private:
  std::vector<Unit> parts(const ReshardTransfer& x, const Shards& shards, uint32_t position) const;
  const ReshardPlan* plan_;
  Shards before_, after_;
  std::vector<uint32_t> position_before_, position_after_;  // by card, or all ones
};

}  // namespace cohort::plan
