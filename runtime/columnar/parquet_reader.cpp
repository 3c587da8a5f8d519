#include "runtime/columnar/parquet_reader.hpp"

#include <fmt/format.h>

#include <vector>

#include "runtime/columnar/column_cursor.hpp"
#include "runtime/columnar/column_tree.hpp"
#include "runtime/columnar/row_text.hpp"

namespace cohort::columnar {

struct ParquetReader::State {
  std::string_view file;
  ParquetLimits limits;
  Footer footer;
  SchemaNode root;
  std::vector<const SchemaNode*> leaves;
  size_t group = 0;  // the one being read
  int64_t group_left = 0;
  std::vector<ColumnCursor> columns;

  Expected<void> begin_group();
  Expected<void> end_group();
};

Expected<void> ParquetReader::State::begin_group() {
  const RowGroup& rows = footer.row_groups[group];
  if (rows.columns.size() != leaves.size())
    return Error{Errc::corrupt,
                 fmt::format("{} columns, the schema has {}", rows.columns.size(), leaves.size())};
  columns.clear();
  for (size_t i = 0; i < leaves.size(); ++i) {
    COHORT_ASSIGN(ColumnCursor column,
                  ColumnCursor::open(file, *leaves[i], rows.columns[i], limits.page_bytes_max));
    columns.push_back(std::move(column));
  }
  group_left = rows.row_count;
  return {};
}

/// A column with more entries than rows would mean that rows were put together wrongly.
Expected<void> ParquetReader::State::end_group() {
  for (size_t i = 0; i < columns.size(); ++i) {
    COHORT_ASSIGN(const bool has_more, columns[i].has_entry());
    if (has_more)
      return Error{Errc::corrupt,
                   fmt::format("column {} has more rows than the others", leaves[i]->path)};
  }
  columns.clear();
  return {};
}

ParquetReader::ParquetReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
ParquetReader::ParquetReader(ParquetReader&&) noexcept = default;
ParquetReader& ParquetReader::operator=(ParquetReader&&) noexcept = default;
ParquetReader::~ParquetReader() = default;

Expected<ParquetReader> ParquetReader::open(std::string_view file, const ParquetLimits& limits) {
  COHORT_ASSIGN(const std::string_view bytes, footer_bytes(file));
  auto state = std::make_unique<State>();
  state->file = file.substr(0, file.size() - bytes.size());
  state->limits = limits;
  COHORT_ASSIGN(state->footer, parse_footer(bytes));
  COHORT_ASSIGN(state->root, build_schema(state->footer.schema));
  state->leaves = leaves_of(state->root);
  return ParquetReader(std::move(state));
}

int64_t ParquetReader::row_count() const { return state_->footer.row_count; }

Expected<bool> ParquetReader::next(std::string& row) {
  State& s = *state_;
  row.clear();
  const auto at_group = [&](const Error& error) {
    return error.with_context(fmt::format("row group {}", s.group));
  };
  while (s.group_left == 0) {
    if (!s.columns.empty()) {
      if (auto ended = s.end_group(); !ended) return at_group(ended.error());
      ++s.group;
    }
    if (s.group == s.footer.row_groups.size()) return false;
    if (auto begun = s.begin_group(); !begun) return at_group(begun.error());
  }
  if (auto added = append_row(s.root, s.columns, s.limits.row_bytes_max, row); !added)
    return at_group(added.error());
  --s.group_left;
  return true;
}

}  // namespace cohort::columnar
