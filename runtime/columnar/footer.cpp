#include "runtime/columnar/footer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/columnar/compact_reader.hpp"

namespace cohort::columnar {
namespace {

constexpr std::string_view k_magic = "PAR1";
constexpr std::string_view k_encrypted_magic = "PARE";
constexpr size_t k_tail_bytes = 8;  // the footer's size and the magic

using Field = CompactReader::Field;

bool is_number(const Field& field) {
  return field.type >= CompactReader::i8 && field.type <= CompactReader::i64;
}

/// Takes field `id` as a number.
template <class T>
bool take(CompactReader& in, const Field& field, int64_t id, T& value) {
  if (field.id != id || !is_number(field)) return false;
  value = static_cast<T>(in.integer());
  return true;
}

template <class Read>
bool take_list(CompactReader& in, const Field& field, int64_t id, Read&& read) {
  if (field.id != id || field.type != CompactReader::list) return false;
  for (size_t count = in.list_size(); count > 0 && !in.is_bad(); --count) read();
  return true;
}

/// ConvertedType, of files written before LogicalType or beside it.
void set_converted(SchemaElement& element, int64_t converted) {
  static constexpr std::string_view k_names[] = {"UTF8",
                                                 "MAP",
                                                 "MAP_KEY_VALUE",
                                                 "LIST",
                                                 "ENUM",
                                                 "DECIMAL",
                                                 "DATE",
                                                 "TIME_MILLIS",
                                                 "TIME_MICROS",
                                                 "TIMESTAMP",
                                                 "TIMESTAMP_MICROS",
                                                 "UINT_8",
                                                 "UINT_16",
                                                 "UINT_32",
                                                 "UINT_64",
                                                 "INT_8",
                                                 "INT_16",
                                                 "INT_32",
                                                 "INT_64",
                                                 "JSON",
                                                 "BSON",
                                                 "INTERVAL"};
  if (converted < 0 || converted >= static_cast<int64_t>(std::size(k_names))) return;
  switch (converted) {
    case 0:
    case 4:
    case 19:
      element.meaning = Meaning::text;
      return;
    case 1:
    case 2:
      element.meaning = Meaning::map;
      return;
    case 3:
      element.meaning = Meaning::list;
      return;
    default:
      break;
  }
  if (converted >= 11 && converted <= 14)
    element.meaning = Meaning::unsigned_number;
  else if (converted < 11 || converted > 18)
    element.meaning = Meaning::other;
  element.meaning_name = k_names[converted];
}

/// IntType {1: bit width, 2: is signed}.
bool read_is_signed(CompactReader& in) {
  bool is_signed = true;
  in.structure_of([&](const Field& field) {
    if (field.id == 2) is_signed = field.type == CompactReader::yes;
    return false;
  });
  return is_signed;
}

/// LogicalType, a union: the id of its one field says which.
void read_logical(CompactReader& in, SchemaElement& element) {
  static constexpr std::string_view k_names[] = {
      "",     "STRING",    "MAP",     "LIST",     "ENUM",     "DECIMAL", "DATE",
      "TIME", "TIMESTAMP", "",        "INTEGER",  "NULL",     "JSON",    "BSON",
      "UUID", "FLOAT16",   "VARIANT", "GEOMETRY", "GEOGRAPHY"};
  in.structure_of([&](const Field& field) {
    switch (field.id) {
      case 1:
      case 4:
      case 12:
        element.meaning = Meaning::text;
        return false;
      case 2:
        element.meaning = Meaning::map;
        return false;
      case 3:
        element.meaning = Meaning::list;
        return false;
      case 10:
        if (field.type != CompactReader::structure) return false;
        element.meaning = read_is_signed(in) ? Meaning::plain : Meaning::unsigned_number;
        return true;
      case 11:
        element.meaning = Meaning::nothing;
        return false;
      default:
        element.meaning = Meaning::other;
        element.meaning_name = field.id < static_cast<int64_t>(std::size(k_names))
                                   ? k_names[field.id]
                                   : fmt::format("number {}", field.id);
        return false;
    }
  });
}

SchemaElement read_element(CompactReader& in) {
  SchemaElement element;
  int64_t converted = -1;
  bool has_logical = false;
  in.structure_of([&](const Field& field) {
    if (int32_t type = 0; take(in, field, 1, type)) {
      element.type = static_cast<Physical>(type);
      return true;
    }
    if (field.id == 4 && field.type == CompactReader::binary) {
      element.name = in.binary_value();
      return true;
    }
    if (field.id == 10 && field.type == CompactReader::structure) {
      has_logical = true;
      read_logical(in, element);
      return true;
    }
    return take(in, field, 3, element.repetition) || take(in, field, 5, element.child_count) ||
           take(in, field, 6, converted);
  });
  if (!has_logical) set_converted(element, converted);
  return element;
}

void read_chunk_meta(CompactReader& in, ColumnChunk& chunk) {
  int64_t data = 0, dictionary = 0;
  in.structure_of([&](const Field& field) {
    if (int32_t type = 0; take(in, field, 1, type)) {
      chunk.type = static_cast<Physical>(type);
      return true;
    }
    return take(in, field, 4, chunk.codec) || take(in, field, 5, chunk.value_count) ||
           take(in, field, 7, chunk.size_bytes) || take(in, field, 9, data) ||
           take(in, field, 11, dictionary);
  });
  chunk.begin = dictionary > 0 ? std::min(dictionary, data) : data;
}

ColumnChunk read_chunk(CompactReader& in) {
  ColumnChunk chunk;
  in.structure_of([&](const Field& field) {
    if (field.id == 1) chunk.is_elsewhere = true;
    if (field.id == 8 || field.id == 9) chunk.is_encrypted = true;
    if (field.id != 3 || field.type != CompactReader::structure) return false;
    read_chunk_meta(in, chunk);
    return true;
  });
  return chunk;
}

RowGroup read_row_group(CompactReader& in) {
  RowGroup group;
  in.structure_of([&](const Field& field) {
    return take_list(in, field, 1, [&] { group.columns.push_back(read_chunk(in)); }) ||
           take(in, field, 3, group.row_count);
  });
  return group;
}

Error damaged() { return {Errc::corrupt, "the parquet footer is damaged"}; }

}  // namespace

std::string name_of(Physical type) {
  static constexpr std::string_view k_names[] = {
      "BOOLEAN", "INT32",  "INT64",      "INT96",
      "FLOAT",   "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"};
  const auto number = static_cast<int64_t>(type);
  return number >= 0 && number < static_cast<int64_t>(std::size(k_names))
             ? std::string(k_names[number])
             : fmt::format("number {}", number);
}

std::string name_of(Codec codec) {
  static constexpr std::string_view k_names[] = {"UNCOMPRESSED", "SNAPPY", "GZIP", "LZO",
                                                 "BROTLI",       "LZ4",    "ZSTD", "LZ4_RAW"};
  const auto number = static_cast<int64_t>(codec);
  return number >= 0 && number < static_cast<int64_t>(std::size(k_names))
             ? std::string(k_names[number])
             : fmt::format("number {}", number);
}

bool is_parquet(std::string_view head) {
  return head.starts_with(k_magic) || head.starts_with(k_encrypted_magic);
}

Expected<std::string_view> footer_bytes(std::string_view file) {
  if (file.starts_with(k_encrypted_magic) || file.ends_with(k_encrypted_magic))
    return Error{Errc::unsupported, "the parquet file is encrypted; write it without encryption"};
  if (file.size() < k_magic.size() + k_tail_bytes || !file.starts_with(k_magic) ||
      !file.ends_with(k_magic))
    return Error{Errc::corrupt, "no whole parquet file: its last bytes are not those of a footer"};
  size_t size = 0;
  for (size_t i = 4; i-- > 0;)
    size = size << 8 | static_cast<uint8_t>(file[file.size() - k_tail_bytes + i]);
  if (size > file.size() - k_magic.size() - k_tail_bytes)
    return Error{Errc::corrupt, fmt::format("the parquet footer says {} bytes, the file has {}",
                                            size, file.size())};
  return file.substr(file.size() - k_tail_bytes - size, size);
}

Expected<Footer> parse_footer(std::string_view bytes) {
  Footer footer;
  bool is_encrypted = false;
  CompactReader in(bytes);
  in.structure_of([&](const Field& field) {
    if (field.id == 8) is_encrypted = true;
    return take_list(in, field, 2, [&] { footer.schema.push_back(read_element(in)); }) ||
           take(in, field, 3, footer.row_count) ||
           take_list(in, field, 4, [&] { footer.row_groups.push_back(read_row_group(in)); });
  });
  if (in.is_bad() || footer.row_count < 0 || footer.schema.empty()) return damaged();
  if (is_encrypted)
    return Error{Errc::unsupported, "the parquet file is encrypted; write it without encryption"};
  int64_t rows = 0;
  for (const RowGroup& group : footer.row_groups) {
    if (group.row_count < 0 || group.row_count > footer.row_count - rows) return damaged();
    rows += group.row_count;
  }
  if (rows != footer.row_count) return damaged();
  return footer;
}

std::optional<int64_t> row_count_of(std::string_view footer) {
  std::optional<int64_t> rows;
  CompactReader in(footer);
  for (Field field{CompactReader::yes, 0}; !rows && (field = in.field(field.id));) {
    if (field.id == 3 && is_number(field))
      rows = in.integer();
    else
      in.skip(field);
  }
  return !in.is_bad() && rows && *rows >= 0 ? rows : std::nullopt;
}

}  // namespace cohort::columnar
