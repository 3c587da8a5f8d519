#pragma once
/// One line of a data file as a row. Pure; any thread.
#include <string_view>

#include "runtime/tasks/dataset.hpp"

namespace cohort::tasks {

/// Reads one JSON object; the id stays empty. Returns Errc::config with the error and the expected
/// form, without file and line.
Expected<Sample> read_row(std::string_view line, const DatasetOptions& options);

/// Returns whether read_row makes Sample::answer of this column where no answer_key is given.
bool is_answer_column(std::string_view name);

}  // namespace cohort::tasks
