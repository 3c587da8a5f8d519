#pragma once
/// A line of a data file as JSON, and words for what is wrong with it. Pure; any thread.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

using RowJson = nlohmann::ordered_json;  // columns keep the order of the file

inline Error bad(std::string reason) { return {Errc::config, std::move(reason)}; }
/// Returns "a list", "a text", …
std::string kind_of(const RowJson& value);
/// Returns Errc::config for what is no JSON, or nested too deep to be handled.
Expected<RowJson> json_of(std::string_view text);
/// Reads a line: json_of, and Errc::config for anything but an object.
Expected<RowJson> parse_row(std::string_view line);
/// Returns the value of a column, "a.b" also that of b in an object a; nothing if it is missing or
/// null.
const RowJson* column(const RowJson& row, const std::string& name);
/// Returns the first columns' names.
std::string names_of_columns(const RowJson& row);

}  // namespace cohort::tasks
