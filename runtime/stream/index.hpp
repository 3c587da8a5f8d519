#pragma once
/// Index: where every record of a stream is, by key and by step. Read from the sidecar of each
/// segment, which a writer appends to at sync and close, and from the segment itself beyond the
/// sidecar's end; a sidecar that is missing, stale or damaged costs time, never an answer. A
/// snapshot: immutable after load(), safe to share between threads. Bound: ~100 bytes a record.
/// INDEX-1: of the records of one trajectory key, the one written last is the newest and wins.
/// INDEX-2: an entry is a hint: Reader::read() checks it against the record.
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/stream/damage.hpp"
#include "runtime/stream/index_proof.hpp"
#include "runtime/stream/record.hpp"
#include "runtime/stream/segment.hpp"

namespace cohort::stream {

class Index {
 public:
  /// Returns probe_stream()'s errors.
  static Expected<Index> load(const std::filesystem::path& folder);

  const StreamInfo& stream() const { return stream_; }
  /// All records in the order written; those of damages() are not among them.
  const std::vector<RecordInfo>& records() const { return records_; }
  /// Returns the newest record of `key`, or null.
  const RecordInfo* find(const proto::TrajectoryKey& key) const;
  /// Returns the newest record of each trajectory key, ordered by kind, step, group, index.
  std::vector<RecordInfo> trajectories() const;
  /// Returns all records filed under `step` in the order written, replaced trajectories left out.
  std::vector<RecordInfo> of_step(uint64_t step) const;
  /// Returns how many records were found by reading segments, not in a sidecar.
  uint64_t scanned_records() const { return scanned_records_; }
  /// What is missing: segments, records whose prefix is gone, records that an index alone still
  /// has. Of bodies nothing is said here: Reader::read() checks them. At most k_damages_max.
  const std::vector<Damage>& damages() const { return damages_; }

 private:
  Expected<void> load_segment(const std::filesystem::path& folder, uint32_t segment,
                              const IndexProof& proof);
  void add(RecordInfo info);
  void add(Damage damage);

  StreamInfo stream_;
  std::vector<RecordInfo> records_;
  std::map<proto::TrajectoryKey, size_t> newest_;  // -> records_
  std::multimap<uint64_t, size_t> by_step_;        // -> records_
  uint64_t scanned_records_ = 0;
  std::vector<Damage> damages_;
  uint64_t next_number_ = 0;  // behind the segments that are loaded
};

/// Returns the entries of a segment's sidecar up to the first that does not hold; none if there is
/// no sidecar of this stream.
std::vector<RecordInfo> read_sidecar(const std::filesystem::path& folder, uint32_t segment,
                                     uint64_t stream_id);
/// As read_sidecar, without the entries that the segment contradicts: it was cut and written on,
/// and the sidecar did not hear of it. Returns Errc::not_found if there is no such segment.
Expected<std::vector<RecordInfo>> trusted_sidecar(const std::filesystem::path& folder,
                                                  uint32_t segment, uint64_t stream_id);
/// What the trusted entries of a sidecar say of one key.
struct SidecarAnswer {
  std::optional<RecordInfo> newest;  // of the key
  std::optional<RecordInfo> last;    // the record behind which the segment has to be read
};
/// As trusted_sidecar, without keeping the entries.
Expected<SidecarAnswer> search_sidecar(const std::filesystem::path& folder, uint32_t segment,
                                       uint64_t stream_id, const proto::TrajectoryKey& key);
/// Writes a segment's sidecar anew.
Expected<void> write_sidecar(const std::filesystem::path& folder, uint32_t segment,
                             uint64_t stream_id, std::span<const RecordInfo> records);

}  // namespace cohort::stream
