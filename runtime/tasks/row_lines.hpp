#pragma once
/// The rows of a data file: the lines of .jsonl, or those of parquet, as JSON. Reads the file,
/// keeps nothing.
#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

/// Takes a row's JSON and "file:number", from 1.
using TakeRow = std::function<Expected<void>(std::string_view text, std::string where)>;

/// Calls `take` for every row that is not blank; its error ends the reading. Returns
/// Errc::not_found for a file that cannot be opened, the error of a damaged parquet file, Errc::io.
Expected<void> for_each_row(const std::string& path, const TakeRow& take);

}  // namespace cohort::tasks
