#pragma once
/// Files of cases: JSON, with NaN, Infinity and -Infinity as Python writes them.
#include <string>

#include "tools/actor-node/evaluate/case.hpp"

namespace cohort::evaluate {

/// Returns the list of cases that a file is or has under "cases"; its numbers that are not finite
/// are texts. Errc::not_found or Errc::io: it cannot be read; Errc::config: it is no such JSON, or
/// it has a number that no double holds or more than k_json_depth_max arrays and objects in each
/// other.
Expected<Json> read_cases(const std::string& path);

}  // namespace cohort::evaluate
