#include "runtime/columnar/column_cursor.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <bit>
#include <optional>

#include "runtime/columnar/compact_reader.hpp"
#include "runtime/columnar/decompress.hpp"

namespace cohort::columnar {
namespace {

enum PageType : int32_t { data_page = 0, index_page = 1, dictionary_page = 2, data_page_v2 = 3 };

Error damaged(std::string_view what) { return {Errc::corrupt, std::string(what)}; }

}  // namespace

struct ColumnCursor::PageHeader {
  int32_t type = -1;
  int64_t size_bytes = -1;        // decompressed
  int64_t compressed_bytes = -1;  // in the file
  std::optional<int32_t> checksum;
  int64_t value_count = -1;
  Encoding encoding = Encoding::plain;
  Encoding repetition_encoding = Encoding::runs;
  Encoding definition_encoding = Encoding::runs;
  int64_t repetition_bytes = 0;  // v2
  int64_t definition_bytes = 0;
  bool is_compressed = true;

  bool take(CompactReader& in, const CompactReader::Field& field);
  void take_data(CompactReader& in, const CompactReader::Field& field, bool is_v2);
};

/// DataPageHeader, DictionaryPageHeader (its two fields are the same) or DataPageHeaderV2.
void ColumnCursor::PageHeader::take_data(CompactReader& in, const CompactReader::Field& field,
                                         bool is_v2) {
  const bool is_number = field.type >= CompactReader::i8 && field.type <= CompactReader::i64;
  if (is_v2 && field.id == 7) is_compressed = field.type == CompactReader::yes;
  if (!is_number) return in.skip(field);
  const int64_t value = in.integer();
  const auto encoded = static_cast<Encoding>(value);
  if (field.id == 1) value_count = value;
  if (field.id == (is_v2 ? 4 : 2)) encoding = encoded;
  if (is_v2 && field.id == 5) definition_bytes = value;
  if (is_v2 && field.id == 6) repetition_bytes = value;
  if (!is_v2 && field.id == 3) definition_encoding = encoded;
  if (!is_v2 && field.id == 4) repetition_encoding = encoded;
}

bool ColumnCursor::PageHeader::take(CompactReader& in, const CompactReader::Field& field) {
  const bool is_number = field.type >= CompactReader::i8 && field.type <= CompactReader::i64;
  if (is_number && field.id <= 4) {
    const int64_t value = in.integer();
    if (field.id == 1) type = static_cast<int32_t>(value);
    if (field.id == 2) size_bytes = value;
    if (field.id == 3) compressed_bytes = value;
    if (field.id == 4) checksum = static_cast<int32_t>(value);
    return true;
  }
  const bool is_page = field.id == 5 || field.id == 7 || field.id == 8;
  if (!is_page || field.type != CompactReader::structure) return false;
  in.structure_of([&](const CompactReader::Field& inner) {
    take_data(in, inner, field.id == 8);
    return true;
  });
  return true;
}

Expected<ColumnCursor> ColumnCursor::open(std::string_view file, const SchemaNode& leaf,
                                          const ColumnChunk& chunk, size_t page_bytes_max) {
  const auto refused = [&](Errc code, std::string_view what) {
    return Error{code, fmt::format("column {}: {}", leaf.path, what)};
  };
  if (chunk.is_encrypted)
    return refused(Errc::unsupported, "is encrypted; write the file without encryption");
  if (chunk.is_elsewhere) return refused(Errc::unsupported, "its pages are in another file");
  if (chunk.type != leaf.type) return refused(Errc::corrupt, "its type is not the schema's");
  const auto size = static_cast<int64_t>(file.size());
  if (chunk.begin < 0 || chunk.begin > size || chunk.size_bytes < 0 ||
      chunk.size_bytes > size - chunk.begin || chunk.value_count < 0)
    return refused(Errc::corrupt, "its pages do not lie in the file");
  return ColumnCursor(
      leaf, chunk,
      file.substr(static_cast<size_t>(chunk.begin), static_cast<size_t>(chunk.size_bytes)),
      page_bytes_max);
}

Error ColumnCursor::at_page(const Error& error) const {
  return error.with_context(fmt::format("column {}, page {}", leaf_->path, page_number_));
}

Expected<ColumnCursor::PageHeader> ColumnCursor::read_header() {
  PageHeader header;
  CompactReader in(pages_.substr(at_));
  in.structure_of([&](const CompactReader::Field& field) { return header.take(in, field); });
  at_ += in.position();
  if (in.is_bad() || header.size_bytes < 0 || header.compressed_bytes < 0 ||
      static_cast<uint64_t>(header.compressed_bytes) > pages_.size() - at_)
    return damaged("its header is damaged");
  if (static_cast<uint64_t>(header.size_bytes) > page_bytes_max_)
    return Error{Errc::capacity,
                 fmt::format("{} bytes, of at most {}", header.size_bytes, page_bytes_max_)};
  return header;
}

Expected<void> ColumnCursor::begin_dictionary(const PageHeader& header, std::string_view bytes) {
  if (dictionary_) return damaged("a second dictionary");
  const bool is_plain =
      header.encoding == Encoding::plain || header.encoding == Encoding::plain_dictionary;
  if (!is_plain)
    return Error{Errc::unsupported,
                 fmt::format("a dictionary of encoding {} is not read", name_of(header.encoding))};
  COHORT_ASSIGN(std::string plain,
                decompress(chunk_->codec, bytes, static_cast<size_t>(header.size_bytes)));
  dictionary_page_ = std::make_unique<std::string>(std::move(plain));
  COHORT_ASSIGN(Dictionary values,
                read_dictionary(leaf_->type, *dictionary_page_, header.value_count));
  dictionary_ = std::make_unique<Dictionary>(std::move(values));
  return {};
}

/// Sets the readers of levels; returns the values behind them. `rest`: the page, its levels in
/// front.
Expected<std::string_view> ColumnCursor::begin_levels(const PageHeader& header,
                                                      std::string_view rest) {
  const auto levels = [&](int32_t highest, Encoding encoding, int64_t size,
                          RunReader& reader) -> Expected<void> {
    if (header.type == data_page) {
      if (highest == 0) return {};
      if (encoding != Encoding::runs)
        return Error{Errc::unsupported,
                     fmt::format("levels of encoding {} are not read", name_of(encoding))};
      if (rest.size() < 4) return damaged("its levels are damaged");
      size = 0;
      for (size_t i = 4; i-- > 0;) size = size << 8 | static_cast<uint8_t>(rest[i]);
      rest.remove_prefix(4);
    }
    if (size < 0 || static_cast<uint64_t>(size) > rest.size())
      return damaged("its levels are damaged");
    reader = RunReader(rest.substr(0, static_cast<size_t>(size)),
                       std::bit_width(static_cast<uint32_t>(highest)));
    rest.remove_prefix(static_cast<size_t>(size));
    return {};
  };
  COHORT_TRY(levels(leaf_->repetition_max, header.repetition_encoding, header.repetition_bytes,
                    repetitions_));
  COHORT_TRY(levels(leaf_->definition_max, header.definition_encoding, header.definition_bytes,
                    definitions_));
  return rest;
}

Expected<void> ColumnCursor::begin_data(const PageHeader& header, std::string_view bytes) {
  if (header.value_count < 0 || header.value_count > chunk_left_)
    return damaged("more values than its column has");
  auto size = static_cast<size_t>(header.size_bytes);
  std::string_view values;
  if (header.type == data_page) {
    COHORT_ASSIGN(std::string plain, decompress(chunk_->codec, bytes, size));
    page_ = std::make_unique<std::string>(std::move(plain));
    COHORT_ASSIGN(values, begin_levels(header, *page_));
  } else {  // v2: levels stand uncompressed in front of the values
    COHORT_ASSIGN(const std::string_view packed, begin_levels(header, bytes));
    const size_t level_bytes = bytes.size() - packed.size();
    if (level_bytes > size) return damaged("its levels are damaged");
    const Codec codec = header.is_compressed ? chunk_->codec : Codec::none;
    COHORT_ASSIGN(std::string plain, decompress(codec, packed, size - level_bytes));
    page_ = std::make_unique<std::string>(std::move(plain));
    values = *page_;
  }
  COHORT_ASSIGN(values_,
                PageValues::create(leaf_->type, header.encoding, values, dictionary_.get()));
  page_left_ = header.value_count;
  chunk_left_ -= header.value_count;
  return {};
}

Expected<void> ColumnCursor::next_page() {
  if (at_ >= pages_.size()) return damaged("is missing: the column has fewer values than it says");
  COHORT_ASSIGN(const PageHeader header, read_header());
  const std::string_view bytes = pages_.substr(at_, static_cast<size_t>(header.compressed_bytes));
  at_ += bytes.size();
  if (header.checksum) {
    const uLong sum =
        crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
    if (static_cast<uint32_t>(*header.checksum) != static_cast<uint32_t>(sum))
      return damaged("its checksum is wrong");
  }
  switch (header.type) {
    case data_page:
    case data_page_v2:
      return begin_data(header, bytes);
    case dictionary_page:
      return begin_dictionary(header, bytes);
    default:
      return {};  // an index page holds no values
  }
}

bool ColumnCursor::read_levels() {
  uint32_t level = 0;
  if (leaf_->repetition_max > 0) {
    if (!repetitions_.next(level)) return false;
    repetition_ = static_cast<int32_t>(level);
  }
  definition_ = leaf_->definition_max;
  if (leaf_->definition_max > 0) {
    if (!definitions_.next(level)) return false;
    definition_ = static_cast<int32_t>(level);
  }
  return repetition_ <= leaf_->repetition_max && definition_ <= leaf_->definition_max &&
         repetition_ >= 0 && definition_ >= 0;
}

Expected<bool> ColumnCursor::has_entry() {
  if (is_loaded_) return true;
  while (page_left_ == 0) {
    if (chunk_left_ == 0) return false;
    ++page_number_;
    if (auto page = next_page(); !page) return at_page(page.error());
  }
  if (!read_levels()) return at_page(damaged("its levels are damaged"));
  is_loaded_ = true;
  return true;
}

Expected<void> ColumnCursor::take(Value& value) {
  is_loaded_ = false;
  --page_left_;
  if (definition_ == leaf_->definition_max && !values_.next(value))
    return at_page(damaged("its values are damaged"));
  return {};
}

}  // namespace cohort::columnar
