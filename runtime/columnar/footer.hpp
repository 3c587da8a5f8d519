#pragma once
/// The footer of a parquet file: what its Thrift FileMetaData says, as it says it. Pure. Numbers of
/// the format that are no enumerator here are kept, so that an error can name them.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::columnar {

enum class Physical : int32_t {
  boolean = 0,
  int32 = 1,
  int64 = 2,
  int96 = 3,
  real32 = 4,
  real64 = 5,
  bytes = 6,
  fixed_bytes = 7,
};
enum class Repetition : int32_t { required = 0, optional = 1, repeated = 2 };
/// What a value means, where it is not only its physical type (LogicalType or ConvertedType).
enum class Meaning : uint8_t { plain, text, list, map, unsigned_number, nothing, other };
enum class Codec : int32_t { none = 0, snappy = 1, gzip = 2, zstd = 6 };

std::string name_of(Physical type);
std::string name_of(Codec codec);

struct SchemaElement {
  std::optional<Physical> type;  // none: a group
  Repetition repetition = Repetition::required;
  std::string name;
  int32_t child_count = 0;
  Meaning meaning = Meaning::plain;
  std::string meaning_name;  // of Meaning::other, e.g. "TIMESTAMP"
};

struct ColumnChunk {
  std::optional<Physical> type;
  Codec codec = Codec::none;
  int64_t value_count = 0;
  int64_t begin = 0;       // offset of its first page in the file
  int64_t size_bytes = 0;  // of its pages, compressed
  bool is_elsewhere = false;
  bool is_encrypted = false;
};

struct RowGroup {
  std::vector<ColumnChunk> columns;
  int64_t row_count = 0;
};

struct Footer {
  std::vector<SchemaElement> schema;  // depth first, the root in front
  std::vector<RowGroup> row_groups;
  int64_t row_count = 0;
};

/// Whether the bytes begin as a parquet file does (an encrypted footer included).
bool is_parquet(std::string_view head);
/// The bytes of the footer of a whole file. Returns Errc::corrupt if there is none.
Expected<std::string_view> footer_bytes(std::string_view file);
/// Returns Errc::corrupt where the footer is damaged.
Expected<Footer> parse_footer(std::string_view footer);
/// FileMetaData.num_rows alone.
std::optional<int64_t> row_count_of(std::string_view footer);

}  // namespace cohort::columnar
