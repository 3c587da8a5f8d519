#pragma once
/// Characters as Python's str sees them: white space, case, classes, positions. Pure, thread-safe.
/// Case tables: tools/golden/make_case_tables.py.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cohort::text::jinja {

/// Returns the number of characters. REQUIRES: valid UTF-8, here and below.
size_t character_count(std::string_view text);
/// Returns the byte at which character `index` begins, or size() if there are not so many.
size_t byte_of(std::string_view text, size_t index);
/// Returns the text backwards, character by character.
std::string reversed(std::string_view text);

/// str.isspace() of one character; what \s matches and strip() removes.
bool is_blank(char32_t c);
/// Returns `text` without blanks at its front (left) and back (right).
std::string_view strip_blanks(std::string_view text, bool left, bool right);
/// Returns `text` without the characters of `set` at its front and back.
std::string_view strip_set(std::string_view text, std::string_view set, bool left, bool right);

enum class CharacterClass : uint8_t {
  alpha,
  decimal,
  digit,
  numeric,
  alnum,
  lower,
  upper,
  printable
};
bool is_in(char32_t c, CharacterClass which);
/// \w.
bool is_word(char32_t c);
/// str.isidentifier().
bool is_identifier(std::string_view text);

enum class Case : uint8_t { lower, upper, title, fold };
/// Full case mapping, one character to up to three.
std::string to_case(std::string_view text, Case which);
/// str.title(): a letter after a letter is lower, another one title.
std::string title_words(std::string_view text);
std::string capitalized(std::string_view text);
std::string swapped_case(std::string_view text);
bool is_title(std::string_view text);

}  // namespace cohort::text::jinja
