#pragma once
/// Which weight version may be served: kept by the placement actor alone (not thread-safe).
///
/// PLACE-5: a weight version is served only when every shard of it has been acknowledged with its
/// checksum. Also kept: versions grow strictly, and at most one is being published at a time.
/// Bound: the version in publication and the newest servable one; older ones are forgotten.
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/plan/run/planted.hpp"

namespace cohort::plan {

/// One piece of a version on one card.
struct Shard {
  CardId card;
  uint32_t bucket = 0;  // index of the bucket of parameters
  uint64_t checksum =
      0;  // xxh3-64 of its bytes, from the trainer in begin, from the receiver in ack
  bool operator==(const Shard&) const = default;
};

class VersionTable {
 public:
  explicit VersionTable(Plant plant = Plant::none) : plant_(plant) {}
  /// Starts publishing. Returns Errc::invalid_argument for no or repeated shards, or a version that
  /// is not newer than every earlier one; Errc::protocol while an older version is unfinished
  /// (abandon it first). The old version stays servable until the new one is complete.
  Expected<void> begin(PolicyVersion version, const std::vector<Shard>& shards);
  /// Returns Errc::corrupt if the checksum differs (the shard stays unacknowledged and may be sent
  /// again), Errc::not_found for a version or shard that is not expected. Repeats are accepted.
  Expected<void> ack(PolicyVersion version, const Shard& shard);
  /// Gives up the version in publication (its number is not used again), e.g. when a receiver died.
  void abandon();
  /// A receiver was lost: nothing is servable until a version has been published to all of them
  /// again; it may be the one that was served.
  void renew();

  bool is_servable(PolicyVersion version) const {
    return servable_ == version ||
           (plant_ == Plant::version_before_whole && publishing_ == version);
  }
  std::optional<PolicyVersion> servable() const { return servable_; }
  std::optional<PolicyVersion> publishing() const { return publishing_; }
  /// Returns how many shards of the version in publication are not acknowledged.
  size_t missing_shards() const { return missing_; }

  /// Aborts the process if a servable version has an unacknowledged shard (PLACE-5).
  void assert_invariants() const;

 private:
  using ShardKey = std::pair<CardId, uint32_t>;
  struct ShardState {
    uint64_t checksum = 0;
    bool is_acked = false;
  };
  Plant plant_;
  std::map<ShardKey, ShardState> shards_;           // of publishing_
  std::map<ShardKey, ShardState> servable_shards_;  // of servable_, to answer repeats
  size_t missing_ = 0;
  std::optional<PolicyVersion> publishing_, servable_, newest_;
};

}  // namespace cohort::plan
