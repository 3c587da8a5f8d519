#pragma once
/// Where the answer stands in a response: think tags, \boxed, small helpers on bytes. Views point
/// into their arguments. Every function is linear in its text.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/text.hpp"

namespace cohort::tasks {

bool is_space(char c);
bool is_digit(char c);
bool is_letter(char c);
/// Returns `text` with every `from` (not empty) replaced by `to`.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);
/// Returns the bytes of the UTF-8 character at text[at]; a broken one ends with the text.
size_t character_size(std::string_view text, size_t at);
/// Returns the last `count` UTF-8 characters of `text`.
std::string_view last_characters(std::string_view text, size_t count);
/// Returns the longest -?[0-9.,]+ at the beginning of `text`, empty if there is none.
std::string_view number_at(std::string_view text);
/// Splits at whitespace.
std::vector<std::string_view> words_of(std::string_view text);
/// Returns the share of the n-grams of `units` that were there before; fewer than n units: 0.
double repeated_share(const std::vector<std::string_view>& units, size_t n);
/// Returns the index of the last `what` in `text`, letters of any case (`what` in lower case), npos
/// if there is none.
size_t rfind_any_case(std::string_view text, std::string_view what);

/// Returns the index of the brace that closes text[open], escaped ones aside, or the end.
size_t closing_brace(std::string_view text, size_t open);

/// A response without its thoughts.
struct Answer {
  std::string_view text;
  bool is_unfinished = false;  // it thinks to its end: text is empty
};

/// Returns the text behind the last </think>, without a later thought that is not closed.
/// `prompt_thinks`: the prompt ends in <think>, so that the response begins inside a thought.
Answer after_thoughts(std::string_view response, bool prompt_thinks = false);

/// Returns the inside of the last \boxed{} or \fbox{} with balanced braces (escaped ones are no
/// braces), or of a `\boxed x` without them; nothing if there is none.
std::optional<std::string_view> last_boxed(std::string_view text);

}  // namespace cohort::tasks
