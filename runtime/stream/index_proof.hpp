#pragma once
/// What the indexes of a stream prove about its segments. A writer notes in an index up to which
/// record the disk has all (STREAM-7), so a segment that ends before that has lost records, and so
/// has a stream without the segment of an index. Read it before the segments: then a live writer
/// is never taken for a loss. No state; thread-safe.
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "runtime/stream/damage.hpp"

namespace cohort::stream {

class IndexProof {
 public:
  /// Reads the last proven entry of every sidecar. One that does not hold proves nothing.
  static IndexProof read(const std::filesystem::path& folder, uint64_t stream_id);

  /// Returns the loss if the segment, whose next record would stand at `end` as number
  /// `next_record`, once held more.
  std::optional<Damage> lost_in(uint32_t segment, uint64_t end, uint64_t next_record) const;
  /// Returns a damage for each segment behind `last` that has no file now. `next_record`: the
  /// number behind all records that are there.
  std::vector<Damage> lost_behind(uint32_t last, uint64_t next_record) const;
  /// Whether the segment held a record.
  bool has(uint32_t segment) const { return held_.contains(segment); }
  /// Returns the number behind the last record that the segment's sidecar proves, or 0.
  uint64_t next_record_in(uint32_t segment) const;
  /// Returns the greatest number behind a proven record; 0 without any.
  uint64_t next_record() const;
  /// Returns the last segment that held a record.
  std::optional<uint32_t> last() const;

 private:
  struct Held {
    uint64_t end = 0;                     // [bytes] of the segment
    std::optional<uint64_t> next_record;  // behind its last one, where a sidecar says it
  };
  std::filesystem::path folder_;
  std::map<uint32_t, Held> held_;
};

}  // namespace cohort::stream
