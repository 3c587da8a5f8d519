#pragma once
/// Text without its edges, its first line, in lower case; names of enumerators. ASCII in every
/// locale. Pure.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace cohort {

inline constexpr std::string_view k_spaces = " \t\n\v\f\r";

/// Returns `text` without the characters of `blanks` at its ends; always a view into `text`.
inline std::string_view trim(std::string_view text, std::string_view blanks = k_spaces) {
  const size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return text.substr(text.size());
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

inline char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
inline std::string to_lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) { return to_lower(c); });
  return result;
}
/// Returns whether both are the same but for the case of letters.
inline bool is_same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, {}, [](char c) { return to_lower(c); }, [](char c) { return to_lower(c); });
}
/// Returns the first `size` bytes of `text`, less a UTF-8 character that would be cut.
inline std::string_view beginning_of(std::string_view text, size_t size) {
  if (text.size() <= size) return text;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  return text.substr(0, size);
}

/// The same, with "…" behind it if there is more.
inline std::string shortened(std::string_view text, size_t size) {
  return std::string(beginning_of(text, size)) + (text.size() > size ? "…" : "");
}

/// Returns `text` up to its first line break. (torch appends a backtrace to what it throws.)
inline std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

/// Returns the name of an enumerator, whose number is its place in `names`, or `none`.
template <class E, size_t N>
constexpr std::string_view name_in(const std::string_view (&names)[N], E value,
                                   std::string_view none = "unknown") {
  return static_cast<size_t>(value) < N ? names[static_cast<size_t>(value)] : none;
}

}  // namespace cohort
