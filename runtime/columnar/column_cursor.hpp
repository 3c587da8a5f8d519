#pragma once
/// One column of one row group: its entries (levels and value) one after another. Holds one page
/// and the dictionary; pages are read as they are reached. Owner: one thread. Errors name the page.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/columnar/bit_runs.hpp"
#include "runtime/columnar/column_tree.hpp"
#include "runtime/columnar/footer.hpp"
#include "runtime/columnar/page_values.hpp"

namespace cohort::columnar {

class ColumnCursor {
 public:
  /// `file`: all of it; `leaf` outlives the cursor. `page_bytes_max`: of a page, decompressed.
  /// Returns Errc::corrupt where the chunk does not lie in the file.
  static Expected<ColumnCursor> open(std::string_view file, const SchemaNode& leaf,
                                     const ColumnChunk& chunk, size_t page_bytes_max);

  /// Whether an entry follows; levels are then those of that entry.
  Expected<bool> has_entry();
  int32_t repetition() const { return repetition_; }
  int32_t definition() const { return definition_; }
  /// Takes the entry. `value` is set if the entry has one, and valid until the next call.
  Expected<void> take(Value& value);

 private:
  ColumnCursor(const SchemaNode& leaf, const ColumnChunk& chunk, std::string_view pages,
               size_t page_bytes_max)
      : leaf_(&leaf),
        chunk_(&chunk),
        pages_(pages),
        page_bytes_max_(page_bytes_max),
        chunk_left_(chunk.value_count) {}
  struct PageHeader;
  Expected<void> next_page();
  Expected<PageHeader> read_header();
  Expected<void> begin_dictionary(const PageHeader& header, std::string_view bytes);
  Expected<void> begin_data(const PageHeader& header, std::string_view bytes);
  Expected<std::string_view> begin_levels(const PageHeader& header, std::string_view rest);
  bool read_levels();
  Error at_page(const Error& error) const;

  const SchemaNode* leaf_;
  const ColumnChunk* chunk_;
  std::string_view pages_;
  size_t page_bytes_max_;
  size_t at_ = 0;
  int64_t page_number_ = -1;
  int64_t chunk_left_;     // entries of the chunk that no page has given yet
  int64_t page_left_ = 0;  // entries of the page
  // Behind pointers: values view them, and a cursor moves.
  std::unique_ptr<std::string> page_;
  std::unique_ptr<std::string> dictionary_page_;
  std::unique_ptr<Dictionary> dictionary_;
  RunReader repetitions_, definitions_;
  PageValues values_;
  int32_t repetition_ = 0, definition_ = 0;
  bool is_loaded_ = false;
};

}  // namespace cohort::columnar
