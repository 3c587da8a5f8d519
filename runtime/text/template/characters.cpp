#include "runtime/text/template/characters.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "runtime/text/unicode.hpp"

namespace cohort::text::jinja {
namespace {

struct CaseRow {
  char32_t first, last;
  uint32_t step;
  int32_t delta;
};
struct LongCase {
  char32_t from;
  std::string_view to;
};
struct CodeRange {
  char32_t first, last;
};
#include "runtime/text/template/case_tables.inl"

template <size_t N>
bool is_in_ranges(const CodeRange (&ranges)[N], char32_t c) {
  const auto* at = std::ranges::upper_bound(ranges, c, {}, &CodeRange::first);
  return at != std::begin(ranges) && c <= std::prev(at)->last;
}

struct CaseMap {
  const CaseRow* rows;
  size_t row_count;
  const LongCase* longs;
  size_t long_count;
};
template <size_t N, size_t M>
constexpr CaseMap case_map(const CaseRow (&rows)[N], const LongCase (&longs)[M]) {
  return {rows, N, longs, M};
}
constexpr std::array k_case_maps{
    case_map(k_lower_rows, k_lower_long), case_map(k_upper_rows, k_upper_long),
    case_map(k_title_rows, k_title_long), case_map(k_fold_rows, k_fold_long)};

void append_case(std::string& out, char32_t c, Case which) {
  if (c < 0x80) {
    const bool is_down = which == Case::lower || which == Case::fold;
    if (is_down && c >= 'A' && c <= 'Z') c += 32;
    if (!is_down && c >= 'a' && c <= 'z') c -= 32;
    out += static_cast<char>(c);
    return;
  }
  const auto& map = k_case_maps[static_cast<size_t>(which)];
  const auto* whole = std::lower_bound(map.longs, map.longs + map.long_count, c,
                                       [](const LongCase& x, char32_t y) { return x.from < y; });
  if (whole != map.longs + map.long_count && whole->from == c) {
    out += whole->to;
    return;
  }
  const auto* row = std::upper_bound(map.rows, map.rows + map.row_count, c,
                                     [](char32_t y, const CaseRow& x) { return y < x.first; });
  // Rows with a step of 2 may enclose others, so the row before may hold `c` as well.
  for (int back = 0; back < 2 && row != map.rows; ++back) {
    --row;
    if (c > row->last || (c - row->first) % row->step != 0) continue;
    c = static_cast<char32_t>(static_cast<int64_t>(c) + row->delta);
    break;
  }
  append_utf8(out, c);
}

Gc gc_of(char32_t c) { return UnicodeTable::get().category(c); }
bool is_category(char32_t c, GcSet set) { return UnicodeTable::get().is_in(c, set); }

bool is_lower_letter(char32_t c) {
  return c < 0x80 ? c >= 'a' && c <= 'z' : gc_of(c) == Gc::Ll || is_in_ranges(k_other_lower, c);
}
bool is_upper_letter(char32_t c) {
  return c < 0x80 ? c >= 'A' && c <= 'Z' : gc_of(c) == Gc::Lu || is_in_ranges(k_other_upper, c);
}
bool is_cased(char32_t c) {
  return is_lower_letter(c) || is_upper_letter(c) || (c >= 0x80 && gc_of(c) == Gc::Lt);
}
bool is_case_ignorable(char32_t c) {
  if (c >= 0x80) return is_in_ranges(k_case_ignorable, c);
  return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`';
}

constexpr char32_t k_sigma = 0x3A3;

/// A sigma that ends a word is ς: a cased letter before it, none after it.
bool is_final_sigma(std::string_view text, size_t begin, size_t end) {
  bool has_before = false;
  for (size_t at = begin; at > 0;) {
    at = previous_begin(text, at);
    size_t next = at;
    const char32_t c = next_character(text, next);
    if (is_case_ignorable(c)) continue;
    has_before = is_cased(c);
    break;
  }
  if (!has_before) return false;
  for (size_t at = end; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return true;
}

void append_lower(std::string& out, std::string_view text, size_t begin, size_t end, char32_t c) {
  if (c == k_sigma) {
    append_utf8(out, is_final_sigma(text, begin, end) ? 0x3C2 : 0x3C3);
    return;
  }
  append_case(out, c, Case::lower);
}

}  // namespace

size_t character_count(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += is_continuation(c) ? 0 : 1;
  return count;
}

size_t byte_of(std::string_view text, size_t index) {
  size_t at = 0;
  while (index > 0 && at < text.size()) {
    at += utf8_size(text[at]);
    --index;
  }
  return at;
}

std::string reversed(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = text.size(); at > 0;) {
    const size_t end = at;
    at = previous_begin(text, at);
    out += text.substr(at, end - at);
  }
  return out;
}

bool is_blank(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  return UnicodeTable::get().is_space(c);
}

namespace {

template <class Test>
std::string_view strip_where(std::string_view text, bool left, bool right, const Test& is_out) {
  while (left && !text.empty()) {
    size_t at = 0;
    if (!is_out(next_character(text, at))) break;
    text.remove_prefix(at);
  }
  while (right && !text.empty()) {
    const size_t begin = previous_begin(text, text.size());
    size_t at = begin;
    if (!is_out(next_character(text, at))) break;
    text = text.substr(0, begin);
  }
  return text;
}

}  // namespace

std::string_view strip_blanks(std::string_view text, bool left, bool right) {
  return strip_where(text, left, right, is_blank);
}
std::string_view strip_set(std::string_view text, std::string_view set, bool left, bool right) {
  return strip_where(text, left, right, [&](char32_t c) {
    for (size_t at = 0; at < set.size();)
      if (next_character(set, at) == c) return true;
    return false;
  });
}

bool is_in(char32_t c, CharacterClass which) {
  switch (which) {
    case CharacterClass::alpha:
      return is_category(c, k_letters);
    case CharacterClass::decimal:
      return is_category(c, gc_set(Gc::Nd));
    case CharacterClass::digit:
      return is_category(c, gc_set(Gc::Nd)) || is_in_ranges(k_other_digits, c);
    case CharacterClass::numeric:
      return is_in(c, CharacterClass::digit) || is_in_ranges(k_other_numeric, c);
    case CharacterClass::alnum:
      return is_category(c, k_letters) || is_in(c, CharacterClass::numeric);
    case CharacterClass::lower:
      return is_lower_letter(c);
    case CharacterClass::upper:
      return is_upper_letter(c);
    case CharacterClass::printable:
      return c == ' ' || !is_category(c, gc_set(Gc::Cc, Gc::Cf, Gc::Cs, Gc::Co, Gc::Cn, Gc::Zs,
                                                Gc::Zl, Gc::Zp));
  }
  return false;
}

bool is_word(char32_t c) { return c == '_' || is_in(c, CharacterClass::alnum); }

bool is_identifier(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const bool is_first = at == 0;
    const char32_t c = next_character(text, at);
    const GcSet start = k_letters | gc_set(Gc::Nl);
    if (c == '_' || is_category(c, start)) continue;
    if (is_first || !is_category(c, gc_set(Gc::Mn, Gc::Mc, Gc::Nd, Gc::Pc))) return false;
  }
  return !text.empty();
}

std::string to_case(std::string_view text, Case which) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    if (which == Case::lower)
      append_lower(out, text, begin, at, c);
    else
      append_case(out, c, which);
  }
  return out;
}

std::string title_words(std::string_view text) {
  std::string out;
  bool is_inside = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    if (is_inside)
      append_lower(out, text, begin, at, c);
    else
      append_case(out, c, Case::title);
    is_inside = is_cased(c);
  }
  return out;
}

std::string capitalized(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    if (begin == 0)
      append_case(out, c, Case::title);
    else
      append_lower(out, text, begin, at, c);
  }
  return out;
}

std::string swapped_case(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    if (is_upper_letter(c))
      append_lower(out, text, begin, at, c);
    else
      append_case(out, c, Case::upper);
  }
  return out;
}

bool is_title(std::string_view text) {
  bool has_cased = false, is_inside = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    const bool is_lower = is_lower_letter(c);
    const bool is_head = !is_lower && is_cased(c);
    if ((is_head && is_inside) || (is_lower && !is_inside)) return false;
    is_inside = is_head || is_lower;
    has_cased = has_cased || is_inside;
  }
  return has_cased;
}

}  // namespace cohort::text::jinja
