#include "runtime/stream/format.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/base/check.hpp"
#include "runtime/tensor/checksum.hpp"

namespace cohort::stream {

static_assert(std::endian::native == std::endian::little, "fields are little-endian on disk");

namespace {

// A text tool shows the name; the line feed shows a file that went through a text-mode copy.
constexpr std::array<char, 8> k_segment_magic = {'C', 'O', 'H', 'O', 'R', 'T', 'S', '\n'};
constexpr std::array<char, 8> k_index_magic = {'C', 'O', 'H', 'O', 'R', 'T', 'I', '\n'};
constexpr uint32_t k_record_magic = 0x43455243;  // "CREC"
constexpr uint8_t k_has_step = 1;
constexpr uint8_t k_has_trajectory = 2;
constexpr uint8_t k_is_packed = 4;
constexpr uint16_t k_index_version = 1;

/// Checksum of a block's first 56 bytes under a stream id (STREAM-3).
uint64_t block_checksum(std::span<const std::byte, 64> block, uint64_t stream_id) {
  std::array<std::byte, 64> bytes;
  std::memcpy(bytes.data(), block.data(), 56);
  std::memcpy(bytes.data() + 56, &stream_id, 8);
  return tensor::checksum64(bytes);
}

uint8_t flags_of(const RecordInfo& info) {
  return static_cast<uint8_t>((info.key.step ? k_has_step : 0) |
                              (info.key.trajectory ? k_has_trajectory : 0) |
                              (info.is_packed ? k_is_packed : 0));
}

/// Bytes 4-7, 12-15 and 32-47 are the same in a prefix and in an index entry.
void put_key(Block& block, const RecordInfo& info) {
  const RecordKey& key = info.key;
  proto::TrajectoryKey trajectory = key.trajectory.value_or(proto::TrajectoryKey{});
  put_field(block, 4, static_cast<uint16_t>(info.type));
  put_field(block, 6, static_cast<uint8_t>(trajectory.kind));
  put_field(block, 7, flags_of(info));
  put_field(block, 12, trajectory.group);
  put_field(block, 32, key.step.value_or(0));
  put_field(block, 40, trajectory.index);
  put_field(block, 44, key.attempt);
}

void get_key(BlockView block, RecordInfo& info) {
  info.type = static_cast<RecordType>(get_field<uint16_t>(block, 4));
  auto flags = get_field<uint8_t>(block, 7);
  auto step = get_field<uint64_t>(block, 32);
  info.is_packed = (flags & k_is_packed) != 0;
  if ((flags & k_has_step) != 0) info.key.step = step;
  if ((flags & k_has_trajectory) != 0)
    info.key.trajectory =
        proto::TrajectoryKey{static_cast<proto::TrajectoryKind>(get_field<uint8_t>(block, 6)), step,
                             get_field<uint32_t>(block, 12), get_field<uint32_t>(block, 40)};
  info.key.attempt = get_field<uint32_t>(block, 44);
}

}  // namespace

void seal(Block& block, uint64_t stream_id) {
  put_field(block, 56, block_checksum(block, stream_id));
}

bool is_sealed(BlockView block, uint64_t stream_id) {
  return get_field<uint64_t>(block, 56) == block_checksum(block, stream_id);
}

SegmentHeaderBytes encode_segment_header(const SegmentHeader& x) {
  COHORT_CHECK(x.run_id.size() <= k_run_id_bytes_max, "STREAM: run id too long for the header");
  SegmentHeaderBytes bytes{};
  std::memcpy(bytes.data(), k_segment_magic.data(), k_segment_magic.size());
  put_field(bytes, 8, x.version);
  put_field(bytes, 10, static_cast<uint16_t>(k_segment_header_bytes));
  put_field(bytes, 12, x.segment);
  put_field(bytes, 16, x.first_record);
  put_field(bytes, 24, x.created_us);
  put_field(bytes, 32, x.stream_id);
  put_field(bytes, 40, static_cast<uint64_t>(x.run_id.size()));
  std::memcpy(bytes.data() + 48, x.run_id.data(), x.run_id.size());
  put_field(bytes, 120, tensor::checksum64(std::span(bytes).first(120)));
  return bytes;
}

DecodedSegmentHeader decode_segment_header(
    std::span<const std::byte, k_segment_header_bytes> bytes) {
  DecodedSegmentHeader result;
  SegmentHeader& x = result.header;
  x.version = get_field<uint16_t>(bytes, 8);
  x.segment = get_field<uint32_t>(bytes, 12);
  x.first_record = get_field<uint64_t>(bytes, 16);
  x.created_us = get_field<uint64_t>(bytes, 24);
  x.stream_id = get_field<uint64_t>(bytes, 32);
  auto run_id_bytes = std::min<uint64_t>(get_field<uint64_t>(bytes, 40), k_run_id_bytes_max);
  x.run_id.assign(reinterpret_cast<const char*>(bytes.data()) + 48, run_id_bytes);
  // Magic, version and checksum keep their place in every version: a newer file is told from
  // damage.
  result.is_damaged =
      std::memcmp(bytes.data(), k_segment_magic.data(), k_segment_magic.size()) != 0 ||
      get_field<uint64_t>(bytes, 120) != tensor::checksum64(bytes.first(120));
  result.is_newer = !result.is_damaged && x.version > k_format_version_max;
  return result;
}

uint64_t body_checksum(std::span<const std::byte> header, std::span<const std::byte> columns) {
  std::array<uint64_t, 2> parts = {tensor::checksum64(header), tensor::checksum64(columns)};
  return tensor::checksum64(std::as_bytes(std::span(parts)));
}

bool is_padding_zero(const RecordInfo& info, std::span<const std::byte> body) {
  auto is_zero = [](std::span<const std::byte> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
  };
  const uint64_t header_bytes = info.stored_header_bytes();
  uint64_t columns_begin = align_up(header_bytes);
  return is_zero(body.subspan(header_bytes, columns_begin - header_bytes)) &&
         is_zero(body.subspan(columns_begin + info.columns_bytes));
}

Block encode_prefix(const RecordInfo& info, uint64_t body_checksum, uint64_t stream_id) {
  Block block{};
  put_field(block, 0, k_record_magic);
  put_key(block, info);
  put_field(block, 8, static_cast<uint32_t>(info.header_bytes));
  put_field(block, 16, info.columns_bytes);
  put_field(block, 24, info.number);
  put_field(block, 48, body_checksum);
  seal(block, stream_id);
  return block;
}

std::optional<DecodedPrefix> decode_prefix(BlockView bytes, uint64_t stream_id) {
  if (get_field<uint32_t>(bytes, 0) != k_record_magic || !is_sealed(bytes, stream_id))
    return std::nullopt;
  DecodedPrefix result;
  result.info.header_bytes = get_field<uint32_t>(bytes, 8);
  result.info.columns_bytes = get_field<uint64_t>(bytes, 16);
  result.info.number = get_field<uint64_t>(bytes, 24);
  get_key(bytes, result.info);
  result.body_checksum = get_field<uint64_t>(bytes, 48);
  if (result.info.columns_bytes > k_columns_bytes_max) return std::nullopt;
  return result;
}

Block encode_index_header(const IndexHeader& x) {
  Block block{};
  std::memcpy(block.data(), k_index_magic.data(), k_index_magic.size());
  put_field(block, 8, k_index_version);
  put_field(block, 12, x.segment);
  put_field(block, 16, x.stream_id);
  put_field(block, 24, x.proven);
  seal(block, x.stream_id);
  return block;
}

std::optional<IndexHeader> decode_index_header(BlockView bytes) {
  IndexHeader x{get_field<uint32_t>(bytes, 12), get_field<uint64_t>(bytes, 16),
                get_field<uint64_t>(bytes, 24)};
  if (std::memcmp(bytes.data(), k_index_magic.data(), k_index_magic.size()) != 0 ||
      get_field<uint16_t>(bytes, 8) != k_index_version || !is_sealed(bytes, x.stream_id))
    return std::nullopt;
  return x;
}

Block encode_index_entry(const RecordInfo& info, uint64_t stream_id) {
  Block block{};
  put_key(block, info);
  put_field(block, 0, static_cast<uint32_t>(info.header_bytes));
  put_field(block, 16, info.columns_bytes);
  put_field(block, 24, info.number);
  put_field(block, 48, info.id.offset);
  seal(block, stream_id);
  return block;
}

std::optional<RecordInfo> decode_index_entry(BlockView bytes, const IndexHeader& header) {
  if (!is_sealed(bytes, header.stream_id)) return std::nullopt;
  RecordInfo info;
  info.header_bytes = get_field<uint32_t>(bytes, 0);
  info.columns_bytes = get_field<uint64_t>(bytes, 16);
  info.number = get_field<uint64_t>(bytes, 24);
  info.id = {header.segment, get_field<uint64_t>(bytes, 48)};
  get_key(bytes, info);
  if (info.columns_bytes > k_columns_bytes_max) return std::nullopt;
  return info;
}

}  // namespace cohort::stream
