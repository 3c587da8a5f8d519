#pragma once
/// Which steps each finished segment holds, and the last one when its writer closed, so that a
/// search for one trajectory opens few sidecars (file `steps.index`, docs/stream.md). A cache as
/// the sidecars are: what it lacks, or what the segments contradict, costs time, never an answer.
/// Value types; no state.
/// INDEX-3: an entry excludes a segment only while the segment's size is the entry's.
#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <span>

#include "runtime/base/error.hpp"
#include "runtime/stream/format.hpp"
#include "runtime/stream/record.hpp"

namespace cohort::stream {

/// The first and the last step of each kind of trajectory in one segment.
class SegmentSteps {
 public:
  SegmentSteps() = default;
  SegmentSteps(uint32_t segment, uint64_t size_bytes) : segment_(segment), size_(size_bytes) {}

  void add(const RecordInfo& info);
  /// The segment has ended with so many bytes.
  void finish(uint32_t segment, uint64_t size_bytes) { segment_ = segment, size_ = size_bytes; }

  uint32_t segment() const { return segment_; }
  uint64_t size_bytes() const { return size_; }
  /// Whether the segment may hold the trajectory.
  bool may_hold(const proto::TrajectoryKey& key) const;

  Block encode(uint64_t stream_id) const;
  static std::optional<SegmentSteps> decode(BlockView bytes, uint64_t stream_id);

 private:
  static constexpr size_t k_kinds = 4;
  /// Steps above are taken for this one: then the range has no end.
  static constexpr uint64_t k_step_max = std::numeric_limits<uint32_t>::max();
  struct Range {
    uint32_t first = std::numeric_limits<uint32_t>::max(), last = 0;  // first > last: none
  };
  uint32_t segment_ = 0;
  uint64_t size_ = 0;
  bool is_any_ = false;  // a kind that this version does not know: nothing is excluded
  std::array<Range, k_kinds> ranges_;
};

std::filesystem::path steps_path(const std::filesystem::path& folder);
/// Adds an entry to the file. A failure leaves the file without it.
Expected<void> append_segment_steps(const std::filesystem::path& folder, const SegmentSteps& steps,
                                    uint64_t stream_id);
/// Returns the entries that hold, by segment; of several the last.
std::map<uint32_t, SegmentSteps> read_segment_steps(const std::filesystem::path& folder,
                                                    uint64_t stream_id);

/// Returns the newest record of `key` by looking at segments from the last to the first, without
/// the whole index; nothing if there is none. Errors are those of Index::load.
Expected<std::optional<RecordInfo>> find_newest(const std::filesystem::path& folder,
                                                uint64_t stream_id,
                                                const proto::TrajectoryKey& key);

}  // namespace cohort::stream
