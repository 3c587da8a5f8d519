#pragma once
/// Prompts that are too long, or too short: filtered before the run by their token counts, or cut
/// when they are used. verl's options filter_overlong_prompts and truncation (which its RL path
/// declares and never reads: a long prompt crashes it in mid-run), and ROLL's rule. Pure.
#include <cstddef>
#include <cstdint>
#include <span>
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

/// Which prompts stay: min_tokens <= tokens <= max_tokens.
struct PromptLengths {
  size_t min_tokens = 0;
  size_t max_tokens = SIZE_MAX;
};
inline constexpr size_t k_roll_min_prompt_tokens = 6;  // ROLL keeps 5 < tokens <= prompt_length

struct FilteredPrompts {
  std::vector<size_t> kept;  // indices, ascending
  size_t too_short = 0;
  size_t too_long = 0;
};
/// `token_counts` are those of whole prompts, chat template included.
FilteredPrompts filter_prompts(std::span<const size_t> token_counts, const PromptLengths& lengths);

}  // namespace cohort::tasks
