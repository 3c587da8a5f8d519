#pragma once
/// Prompts that are too long: refused or cut when they are used. verl's option truncation (which
/// its RL path declares and never reads: a long prompt crashes it in mid-run). Pure.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

enum class Truncation : uint8_t {
  error,  // a prompt over the bound is refused
  left,   // its last tokens are kept
  right,  // its first tokens are kept
  middle  // its first floor(max / 2) and its last max - floor(max / 2) are kept
};

/// Returns Errc::config for another name than error, left, right, middle.
Expected<Truncation> truncation_of(std::string_view name);

/// Returns at most `max` of the tokens. Returns Errc::config naming the row and both lengths if
/// there are more and `truncation` is error, Errc::invalid_argument if max is 0.
Expected<std::vector<int32_t>> fit_prompt(std::vector<int32_t> tokens, size_t max,
                                          Truncation truncation, std::string_view row_id);

}  // namespace cohort::tasks
