#include "runtime/text/unicode.hpp"

#include <algorithm>
#include <iterator>

namespace cohort::text {
namespace {

struct CategoryRun {
  char32_t first;
  Gc category;
};
using enum Gc;
constexpr CategoryRun k_category_runs[] = {
#include "runtime/text/unicode_tables.inl"
};

constexpr bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace

const UnicodeTable& UnicodeTable::get() {
  static const UnicodeTable table;
  return table;
}

UnicodeTable::UnicodeTable() {
  std::array<uint8_t, 256> block{};
  size_t run = 0, last_uniform = 0;
  uint8_t last_value = 255;
  for (char32_t c = 0; c < 0x110000; ++c) {
    while (run + 1 < std::size(k_category_runs) && k_category_runs[run + 1].first <= c) ++run;
    const auto category = static_cast<unsigned>(k_category_runs[run].category);
    block[c & 255] = static_cast<uint8_t>(category | (is_white_space(c) ? 32U : 0U));
    if ((c & 255) != 255) continue;
    // Most blocks hold one value (ideographs, Hangul, private use, nothing): they share cells.
    const bool is_uniform = std::ranges::all_of(block, [&](uint8_t x) { return x == block[0]; });
    if (is_uniform && block[0] == last_value) {
      blocks_[c >> 8] = static_cast<uint16_t>(last_uniform);
      continue;
    }
    blocks_[c >> 8] = static_cast<uint16_t>(cells_.size() >> 8);
    if (is_uniform) {
      last_uniform = cells_.size() >> 8;
      last_value = block[0];
    }
    cells_.insert(cells_.end(), block.begin(), block.end());
  }
}

bool is_word_character(char32_t c) {
  constexpr GcSet k_word = k_letters | k_marks | gc_set(Nd, Nl, Pc);
  if (UnicodeTable::get().is_in(c, k_word)) return true;
  // Circled and squared letters are alphabetic symbols; the joiners are Join_Control.
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189) || c == 0x200C ||
         c == 0x200D;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 63));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 63));
    put(0x80 | (c & 63));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 63));
    put(0x80 | (c >> 6 & 63));
    put(0x80 | (c & 63));
  }
}

std::string to_utf8(char32_t c) {
  std::string text;
  append_utf8(text, c);
  return text;
}

Utf8Prefix utf8_prefix(std::string_view text) {
  using Kind = Utf8Prefix::Kind;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {Kind::character, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Kind::invalid, 1};
  const size_t size = utf8_size(text[0]);
  // Overlong forms, surrogates and what lies above U+10FFFF fail at the second byte.
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < size; ++i) {
    if (i == text.size()) return {Kind::incomplete, i};
    if (byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xBF))
      return {Kind::invalid, i};
  }
  return {Kind::character, size};
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Prefix prefix = utf8_prefix(text);
    if (prefix.kind != Utf8Prefix::Kind::character) return false;
    text.remove_prefix(prefix.size);
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Prefix prefix = utf8_prefix(text);
    out += prefix.kind == Utf8Prefix::Kind::character ? text.substr(0, prefix.size) : k_replacement;
    text.remove_prefix(prefix.size);
  }
  return out;
}

}  // namespace cohort::text
