#include "runtime/text/template/splitting.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/text/template/characters.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text::jinja {
namespace {

size_t word_end(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    size_t next = at;
    if (is_blank(next_character(text, next))) break;
    at = next;
  }
  return at;
}

size_t word_begin(std::string_view text) {
  size_t at = text.size();
  while (at > 0) {
    const size_t before = previous_begin(text, at);
    size_t next = before;
    if (is_blank(next_character(text, next))) break;
    at = before;
  }
  return at;
}

/// Refuses more parts than a list could hold.
void check_parts(Budget& budget, const std::vector<std::string_view>& parts) {
  budget.step();
  budget.check_room(parts.size(), sizeof(Value) + sizeof(Text));
}

}  // namespace

size_t find_part(std::string_view text, std::string_view part, size_t from) {
  if (part.empty()) return from;
  if (from >= text.size()) return std::string_view::npos;
  const void* at = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (at == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(at) - text.data());
}

size_t find_last_part(std::string_view text, std::string_view part) {
  if (part.size() < 16) return text.rfind(part);
  const std::string backwards(text.rbegin(), text.rend());
  const size_t at = find_part(backwards, std::string(part.rbegin(), part.rend()));
  return at == std::string_view::npos ? at : text.size() - at - part.size();
}

std::vector<std::string_view> split_blanks(Budget& budget, std::string_view text, Integer most,
                                           bool from_right) {
  std::vector<std::string_view> parts;
  budget.scan(text.size());
  text = strip_blanks(text, !from_right, from_right);
  while (!text.empty()) {
    check_parts(budget, parts);
    if (most >= 0 && static_cast<Integer>(parts.size()) == most) {
      parts.push_back(text);  // with the blanks of its far side
      break;
    }
    if (from_right) {
      const size_t begin = word_begin(text);
      parts.push_back(text.substr(begin));
      text = strip_blanks(text.substr(0, begin), false, true);
    } else {
      const size_t end = word_end(text);
      parts.push_back(text.substr(0, end));
      text = strip_blanks(text.substr(end), true, false);
    }
  }
  if (from_right) std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string_view> split_at(Budget& budget, std::string_view text,
                                       std::string_view separator, Integer most, bool from_right) {
  std::vector<std::string_view> parts;
  budget.step(1 + text.size() / 512);
  // From the right: the same on the text backwards, so that each part is looked for once.
  const std::string backwards(from_right ? std::string(text.rbegin(), text.rend()) : "");
  const std::string mark(from_right ? std::string(separator.rbegin(), separator.rend()) : "");
  const std::string_view all = from_right ? std::string_view(backwards) : text;
  const std::string_view by = from_right ? std::string_view(mark) : separator;
  size_t begin = 0;
  const auto part = [&](size_t end) {
    return from_right ? text.substr(text.size() - end, end - begin)
                      : text.substr(begin, end - begin);
  };
  while (most < 0 || static_cast<Integer>(parts.size()) < most) {
    const size_t at = find_part(all, by, begin);
    if (at == std::string_view::npos) break;
    check_parts(budget, parts);
    parts.push_back(part(at));
    begin = at + by.size();
  }
  parts.push_back(part(all.size()));
  if (from_right) std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string_view> lines_of(Budget& budget, std::string_view text, bool keeps_ends) {
  std::vector<std::string_view> lines;
  budget.scan(text.size());
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t mark = at;
    const char32_t c = next_character(text, at);
    const bool is_break = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                          c == 0x2028 || c == 0x2029;
    if (!is_break) continue;
    check_parts(budget, lines);
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keeps_ends ? at : mark) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string replaced(Budget& budget, std::string_view text, std::string_view from,
                     std::string_view to, Integer most) {
  budget.scan(text.size());
  std::string out;
  Integer done = 0;
  size_t at = 0;
  const auto put = [&](std::string_view x) {
    out += x;
    budget.step(1 + x.size() / 1024);
    budget.check_text(out.size());
  };
  while (most < 0 || done < most) {
    if (from.empty()) {  // before each character, and at the end
      put(to);
      ++done;
      if (at >= text.size()) return out;
      const size_t size = utf8_size(text[at]);
      put(text.substr(at, size));
      at += size;
      continue;
    }
    const size_t next = find_part(text, from, at);
    if (next == std::string_view::npos) break;
    put(text.substr(at, next - at));
    put(to);
    at = next + from.size();
    ++done;
  }
  put(text.substr(at));
  return out;
}

}  // namespace cohort::text::jinja
