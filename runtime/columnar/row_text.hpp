#pragma once
/// A row as JSON, put together from the entries of its columns (the record assembly of Dremel:
/// Melnik et al. 2010, section 4). Keys stand in the order of the schema; a missing value is null.
/// NaN and infinities, which JSON has not, are null too. Owner: one thread.
#include <cstddef>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/columnar/column_cursor.hpp"
#include "runtime/columnar/column_tree.hpp"

namespace cohort::columnar {

/// Appends the next row. `columns`: one for each leaf of `root`, each at the first entry of the
/// row. Returns Errc::corrupt where their levels contradict each other, Errc::capacity above
/// `bytes_max`, Errc::unsupported for bytes that are no UTF-8; each names the column.
Expected<void> append_row(const SchemaNode& root, std::vector<ColumnCursor>& columns,
                          size_t bytes_max, std::string& text);

}  // namespace cohort::columnar
