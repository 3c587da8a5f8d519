#include "runtime/tasks/scorers/answer_text.hpp"

#include <algorithm>
#include <unordered_set>

namespace cohort::tasks {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t at = 0;;) {
    size_t found = text.find(from, at);
    out += text.substr(at, found - at);
    if (found == std::string_view::npos) return out;
    out += to;
    at = found + from.size();
  }
}

size_t character_size(std::string_view text, size_t at) {
  auto lead = static_cast<unsigned char>(text[at]);
  size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  return std::min(size, text.size() - at);
}

std::string_view last_characters(std::string_view text, size_t count) {
  size_t at = text.size();
  while (at > 0 && count > 0) {
    --at;
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80) --count;
  }
  return text.substr(at);
}

std::string_view number_at(std::string_view text) {
  const size_t sign = text.starts_with('-') ? 1 : 0;
  const size_t end = std::min(text.find_first_not_of("0123456789.,", sign), text.size());
  return end == sign ? std::string_view() : text.substr(0, end);
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < text.size();) {
    while (at < text.size() && is_space(text[at])) ++at;
    size_t begin = at;
    while (at < text.size() && !is_space(text[at])) ++at;
    if (at > begin) words.push_back(text.substr(begin, at - begin));
  }
  return words;
}

double repeated_share(const std::vector<std::string_view>& units, size_t n) {
  if (units.size() < n) return 0;
  std::unordered_set<std::string_view> seen;
  const size_t total = units.size() - n + 1;
  // Equal words may stand with different space between them: n-grams are compared joined.
  std::string joined;
  std::vector<size_t> begins;
  for (std::string_view unit : units) {
    begins.push_back(joined.size());
    joined.append(unit).push_back(' ');
  }
  begins.push_back(joined.size());
  for (size_t i = 0; i < total; ++i)
    seen.insert(std::string_view(joined).substr(begins[i], begins[i + n] - begins[i]));
  return 1 - static_cast<double>(seen.size()) / static_cast<double>(total);
}

size_t rfind_any_case(std::string_view text, std::string_view what) {
  for (size_t at = text.size() < what.size() ? 0 : text.size() - what.size() + 1; at-- > 0;) {
    size_t i = 0;
    while (i < what.size() && to_lower(text[at + i]) == what[i]) ++i;
    if (i == what.size()) return at;
  }
  return std::string_view::npos;
}

Answer after_thoughts(std::string_view response, bool prompt_thinks) {
  constexpr std::string_view k_open = "<think>", k_close = "</think>";
  size_t close = response.rfind(k_close);
  if (close == std::string_view::npos && prompt_thinks) return {{}, true};
  std::string_view text = response;
  if (close != std::string_view::npos) text.remove_prefix(close + k_close.size());
  size_t open = text.find(k_open);
  if (open == std::string_view::npos) return {text, false};
  text = text.substr(0, open);
  return {text, trim(text).empty()};
}

size_t closing_brace(std::string_view text, size_t open) {
  size_t depth = 0;
  for (size_t at = open; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == '{')
      ++depth;
    else if (text[at] == '}' && --depth == 0)
      return at;
  }
  return text.size();
}

std::optional<std::string_view> last_boxed(std::string_view text) {
  constexpr int k_tries = 16;  // one that is not balanced: the one before it; each is linear
  size_t end = text.size();
  for (int i = 0; i < k_tries && end != 0; ++i) {
    size_t box = text.rfind("box", end - 1);
    while (box != std::string_view::npos) {
      if (text.substr(box).starts_with("boxed") && box > 0 && text[box - 1] == '\\') break;
      if (box > 1 && text.substr(box - 2).starts_with("\\fbox")) break;
      box = box == 0 ? std::string_view::npos : text.rfind("box", box - 1);
    }
    if (box == std::string_view::npos) return std::nullopt;
    end = box;
    std::string_view rest = text.substr(box + (text[box - 1] == '\\' ? 5 : 3));
    bool has_space = !rest.empty() && is_space(rest.front());
    std::string_view inside = trim(rest);
    if (inside.starts_with('{')) {
      size_t close = closing_brace(inside, 0);
      if (close < inside.size()) return inside.substr(1, close - 1);
    } else if (has_space) {
      return trim(inside.substr(0, inside.find_first_of("$\n")));
    }
  }
  return std::nullopt;
}

}  // namespace cohort::tasks
