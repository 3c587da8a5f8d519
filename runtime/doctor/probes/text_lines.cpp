#include "runtime/doctor/probes/text_lines.hpp"

#include <algorithm>

namespace cohort::doctor {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

bool next_line(std::string_view& text, std::string_view& line) {
  if (text.empty()) return false;
  size_t end = text.find('\n');
  line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return true;
}

std::string_view next_word(std::string_view& text) {
  text = trim(text);
  auto end = std::find_if(text.begin(), text.end(), is_blank);
  auto word = text.substr(0, static_cast<size_t>(end - text.begin()));
  text.remove_prefix(word.size());
  return word;
}

bool starts_with_no_case(std::string_view text, std::string_view start) {
  return text.size() >= start.size() &&
         std::equal(start.begin(), start.end(), text.begin(),
                    [](char a, char b) { return to_lower(a) == to_lower(b); });
}

std::optional<std::string_view> field_of(std::string_view text, std::string_view field) {
  for (std::string_view line; next_line(text, line);) {
    auto found = std::search(line.begin(), line.end(), field.begin(), field.end(),
                             [](char a, char b) { return to_lower(a) == to_lower(b); });
    if (found == line.end()) continue;
    return trim(line.substr(static_cast<size_t>(found - line.begin()) + field.size()));
  }
  return std::nullopt;
}

std::optional<uint64_t> leading_number(std::string_view text, uint64_t limit) {
  uint64_t value = 0;
  size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
    auto digit = static_cast<uint64_t>(text[digits] - '0');
    if (value > (limit - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  return digits > 0 ? std::optional(value) : std::nullopt;
}

std::string printable(std::string_view text, size_t size) {
  std::string out(text.substr(0, size));
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  return out;
}

}  // namespace cohort::doctor
