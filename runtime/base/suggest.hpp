#pragma once
/// "did you mean": the nearest known name by edit distance. Pure.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

/// Optimal string alignment distance: insert, delete, replace and swap of neighbours cost 1 each.
size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the nearest of `names` if it is near enough to be meant, else "".
std::string nearest_name(std::string_view name, const std::vector<std::string>& names);

/// Returns "; did you mean 'x'?" or "".
std::string did_you_mean(std::string_view name, const std::vector<std::string>& names);

}  // namespace cohort
