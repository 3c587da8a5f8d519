#pragma once
/// The bytes of a stream on disk (docs/stream.md): segment header, record prefix, index entry.
/// Pure and thread-safe; shared by writer, reader and verifier, so that they cannot disagree.
/// STREAM-1: every record starts at a multiple of 64 and covers whole 64-byte blocks.
/// STREAM-2: every byte of a record is covered: prefix by its checksum, header and columns by the
/// body checksum inside the prefix, padding by being zero. Of a packed record that is the frame.
/// STREAM-3: a prefix counts only under the stream id of its segment, so that a stream embedded in
/// a payload, or a segment of another run, is never taken for ours.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/stream/record.hpp"

namespace cohort::stream {

/// A segment says the oldest of them that it needs: 2 if it may hold packed records.
inline constexpr uint16_t k_format_version = 1, k_format_version_packed = 2;
inline constexpr uint16_t k_format_version_max = k_format_version_packed;
inline constexpr uint64_t k_alignment = 64;  // a cache line; columns can be mapped as they are
inline constexpr uint64_t k_segment_header_bytes = 128;
inline constexpr uint64_t k_prefix_bytes = 64;
inline constexpr uint64_t k_index_header_bytes = 64;
inline constexpr uint64_t k_index_entry_bytes = 64;
inline constexpr size_t k_run_id_bytes_max = 72;  // what is left in the segment header
// Nothing of ours comes near; a bound keeps offset arithmetic from overflowing on hostile bytes.
inline constexpr uint64_t k_columns_bytes_max = uint64_t{1} << 40;

constexpr uint64_t align_up(uint64_t x) {
  return (x + k_alignment - 1) / k_alignment * k_alignment;
}

/// Returns the bytes that a record takes on disk.
constexpr uint64_t record_bytes(uint64_t header_bytes, uint64_t columns_bytes) {
  return k_prefix_bytes + align_up(header_bytes) + align_up(columns_bytes);
}

struct SegmentHeader {
  uint16_t version = k_format_version;
  uint32_t segment = 0;
  uint64_t first_record = 0;  // number of the first record in this segment
  uint64_t created_us = 0;    // wall clock
  uint64_t stream_id = 0;     // random, the same in all segments of a stream
  std::string run_id = {};    // at most k_run_id_bytes_max
};

using SegmentHeaderBytes = std::array<std::byte, k_segment_header_bytes>;
using Block = std::array<std::byte, 64>;
using BlockView = std::span<const std::byte, 64>;

/// A field of a header or a block, little-endian as in memory.
template <class T>
void put_field(std::span<std::byte> bytes, size_t offset, const T& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}
template <class T>
T get_field(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// Sets the checksum of a block, at 56, of the bytes before it and the stream id (STREAM-3).
void seal(Block& block, uint64_t stream_id);
bool is_sealed(BlockView block, uint64_t stream_id);

SegmentHeaderBytes encode_segment_header(const SegmentHeader& x);

/// A decoded segment header. `header` holds the fields as read also if it is damaged.
struct DecodedSegmentHeader {
  SegmentHeader header;
  bool is_damaged = false;
  bool is_newer = false;  // intact, but of a format that this reader does not know
};
DecodedSegmentHeader decode_segment_header(
    std::span<const std::byte, k_segment_header_bytes> bytes);

/// Returns the checksum of a record's header and columns as they are stored, as the prefix holds
/// it.
uint64_t body_checksum(std::span<const std::byte> header, std::span<const std::byte> columns);

/// Returns whether the padding in a record's stored body (all bytes behind its prefix) is zero.
bool is_padding_zero(const RecordInfo& info, std::span<const std::byte> body);

/// `info.id` is not part of a prefix: its place says it.
Block encode_prefix(const RecordInfo& info, uint64_t body_checksum, uint64_t stream_id);

struct DecodedPrefix {
  RecordInfo info;  // without id
  uint64_t body_checksum = 0;
};
/// Returns nothing if magic or checksum does not hold under `stream_id`.
std::optional<DecodedPrefix> decode_prefix(BlockView bytes, uint64_t stream_id);

/// Header of an index sidecar.
struct IndexHeader {
  uint32_t segment = 0;
  uint64_t stream_id = 0;
  uint64_t proven = 0;  // so many entries name records that a sync() has brought to the disk
};
Block encode_index_header(const IndexHeader& x);
std::optional<IndexHeader> decode_index_header(BlockView bytes);

/// An index entry: a record's info, `info.id.segment` is that of the sidecar.
Block encode_index_entry(const RecordInfo& info, uint64_t stream_id);
std::optional<RecordInfo> decode_index_entry(BlockView bytes, const IndexHeader& header);

}  // namespace cohort::stream
