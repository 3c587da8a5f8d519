#pragma once
/// Records of a stream: their types, their place, and their keys, known without decoding. A record
/// is a header (protobuf batch of one trajectory, or JSON text) and raw columns. Value types; a
/// Record shares the bytes that it was read into. Not thread-safe per object.
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/proto/trajectory.hpp"
#include "runtime/tensor/buffer.hpp"

namespace cohort::stream {

/// On disk as a number: append-only. `trajectory` has an encoded batch of one; all others JSON
/// text.
enum class RecordType : uint16_t {
  run_config = 1,
  plan = 2,
  trajectory = 3,
  phase = 4,
  weight_version = 5,
  advantages = 6,
  step_result = 7,
  event = 8,
  checkpoint = 9,
};

/// Returns the stable name, e.g. "step_result"; "unknown" for a number that this reader does not
/// know.
std::string_view to_string(RecordType type);
/// Returns nothing if no type has this name.
std::optional<RecordType> parse_record_type(std::string_view name);

struct RecordId {
  uint32_t segment = 0;
  uint64_t offset = 0;  // [bytes] of the record in its segment file
  auto operator<=>(const RecordId&) const = default;
};

/// The key of a record. Trajectories have both, JSON records a step if their text has one.
struct RecordKey {
  std::optional<uint64_t> step;
  std::optional<proto::TrajectoryKey> trajectory;
  uint32_t attempt = 0;
  bool operator==(const RecordKey&) const = default;
};

struct RecordInfo {
  RecordId id;
  uint64_t number = 0;  // 0, 1, 2 … through the whole stream
  RecordType type = RecordType::event;
  uint64_t header_bytes = 0;
  uint64_t columns_bytes = 0;  // as stored; packed: of the frame, which has the header too
  RecordKey key;
  bool is_packed = false;  // header and columns are one zstd frame (packing.hpp)
  bool operator==(const RecordInfo&) const = default;
  /// Returns the bytes on disk, padding included.
  uint64_t size_bytes() const;
  /// Returns how many bytes of the header lie before what `columns_bytes` counts.
  uint64_t stored_header_bytes() const { return is_packed ? 0 : header_bytes; }
  /// Returns "record 12 (trajectory train/step 3/group 1/index 0) in segment 0 at 4096".
  std::string describe() const;
};

struct Record {
  RecordInfo info;
  tensor::Buffer body;         // header, padding, columns, padding: as on disk, or unpacked
  uint64_t columns_bytes = 0;  // of it

  std::span<const std::byte> header() const;
  std::span<const std::byte> columns() const;
  /// Returns the header as text, for JSON records.
  std::string_view text() const;
  /// Returns Errc::corrupt if this is no trajectory or its bytes do not decode to exactly one.
  Expected<proto::Trajectory> trajectory() const;
};

/// Returns the record of a body as it is stored (all bytes behind its prefix). Returns
/// Errc::corrupt, saying what, if checksum, padding or frame does not hold.
Expected<Record> record_of(const RecordInfo& info, uint64_t body_checksum, tensor::Buffer stored);

/// Returns the key that a record with these bytes is filed under: from the trajectory, or the
/// `step` of the JSON object. Returns Errc::invalid_argument if they are not what `type` demands.
Expected<RecordKey> key_of(RecordType type, std::span<const std::byte> header,
                           std::span<const std::byte> columns);

}  // namespace cohort::stream
