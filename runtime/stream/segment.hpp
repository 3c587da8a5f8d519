#pragma once
/// Walks the records of one segment file, front to back, and returns each item: a record, the end,
/// a torn tail, or damage, after which it finds the next intact record. Owner: one thread. Bound:
/// one window of k_window_bytes, or the largest record. SCAN-1: a `record` item has passed every
/// check of its depth. SCAN-2: damage is one item, and is followed by the first later record whose
/// prefix holds; no intact record is ever passed over.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/stream/format.hpp"
#include "runtime/stream/record.hpp"
#include "runtime/stream/stream_file.hpp"
#include "runtime/tensor/buffer.hpp"

namespace cohort::stream {

inline constexpr uint64_t k_window_bytes = uint64_t{4} << 20;          // body scans: big reads
inline constexpr uint64_t k_prefix_window_bytes = uint64_t{64} << 10;  // prefix scans: skip bodies

/// Facts of a stream before any record is read.
struct StreamInfo {
  uint64_t stream_id = 0;
  uint64_t created_us = 0;  // wall clock
  std::string run_id;
  bool is_packed = false;          // records may be, in the first segment whose header holds
  std::vector<uint32_t> segments;  // ascending
};

/// Takes stream id and run id from the first segment header that holds, else from an index sidecar.
/// Returns Errc::not_found if there is no segment, Errc::protocol if the format is newer than ours.
Expected<StreamInfo> probe_stream(const std::filesystem::path& folder);

enum class ScanDepth { prefix, body };
enum class ScanState {
  record,   // one more record
  end,      // the file ends behind the last record
  torn,     // the file ends inside a record (or in zeros): a write that did not finish
  damaged,  // bytes that differ from the written ones
};

struct ScanItem {
  ScanState state = ScanState::end;
  RecordInfo info;  // damaged: place and number; the rest as far as `is_prefix_intact`
  bool is_prefix_intact = false;
  tensor::Buffer body;         // of a record at depth body: see Record
  std::string what;            // of torn and damaged
  uint64_t columns_bytes = 0;  // in `body`
};

class SegmentScanner {
 public:
  /// `first_record`: number that the segment must start with; nothing takes the header's word.
  static Expected<SegmentScanner> open(const std::filesystem::path& folder, uint32_t segment,
                                       uint64_t stream_id, std::optional<uint64_t> first_record,
                                       ScanDepth depth);
  /// Returns Errc::io only; damage is an item. After `end` and `torn` the same place is looked at
  /// again, so that a reader can follow a writer.
  Expected<ScanItem> next();
  /// Goes on at `offset`, where record `number` must be.
  void seek(uint64_t offset, uint64_t number);
  uint64_t offset() const { return offset_; }       // of the next item
  uint64_t next_number() const { return number_; }  // expected there
  uint16_t version() const { return version_; }     // of the segment's format
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  Expected<void> read_header();
  Expected<std::span<const std::byte>> view(uint64_t offset, uint64_t size_bytes);
  Expected<bool> is_zero_to_end(uint64_t offset);
  Expected<uint64_t> find_prefix(uint64_t offset);
  Expected<ScanItem> item_without_prefix();
  Expected<ScanItem> item_of(const DecodedPrefix& prefix);
  Expected<void> take_body(const DecodedPrefix& prefix, ScanItem& item);
  ScanItem stop(ScanState state, std::string what);

  File file_;
  uint32_t segment_ = 0;
  uint64_t stream_id_ = 0;
  uint16_t version_ = k_format_version;
  std::optional<uint64_t> first_record_;
  ScanDepth depth_ = ScanDepth::body;
  uint64_t size_ = 0;                    // of the file, as last looked up
  uint64_t offset_ = 0;                  // of the next item
  uint64_t number_ = 0;                  // expected at offset_
  std::optional<ScanItem> header_item_;  // damage of the segment header, not yet returned
  tensor::Buffer window_;
  uint64_t window_offset_ = 0;
};

}  // namespace cohort::stream
