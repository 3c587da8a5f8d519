#pragma once
/// What every text of a config has to be, wherever it comes from: UTF-8 without control bytes.
/// Pure.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cohort::config {

struct BadByte {
  size_t offset = 0;
  std::string text;  // what is wrong with it
};

/// Finds the first byte that is no UTF-8 (overlong forms and surrogates neither), or a control byte
/// other than tab, line feed and carriage return.
std::optional<BadByte> find_bad_byte(std::string_view text);

/// Whether `text` is UTF-8; control bytes may be in it.
bool is_utf8(std::string_view text);

/// `text` for a message: on one line, cut at 200 bytes between two characters.
std::string shown_text(std::string_view text, size_t bytes_max = 200);

/// Index of the '}' that closes the "${" at `open`, or npos. Braces nest; quoted ones do not count.
size_t closing_brace(std::string_view text, size_t open);

}  // namespace cohort::config
