#pragma once
/// UTF-8 and the character classes of Unicode 16 (general categories, white space), which are those
/// of the regex engine that Hugging Face's tokenizers use. Pure, thread-safe. Tables:
/// tools/golden/make_unicode_tables.py; 0.3 MB, expanded at the first use.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::text {

/// General category. The numbers fit 5 bits; a set of categories is a GcSet.
enum class Gc : uint8_t {
  Cn,
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp,
  Cc,
  Cf,
  Cs,
  Co,
};
using GcSet = uint32_t;  // bit n: the category of number n

template <class... Categories>
constexpr GcSet gc_set(Categories... x) {
  return (... | (GcSet{1} << static_cast<unsigned>(x)));
}
inline constexpr GcSet k_letters = gc_set(Gc::Lu, Gc::Ll, Gc::Lt, Gc::Lm, Gc::Lo);
inline constexpr GcSet k_numbers = gc_set(Gc::Nd, Gc::Nl, Gc::No);
inline constexpr GcSet k_marks = gc_set(Gc::Mn, Gc::Mc, Gc::Me);
inline constexpr GcSet k_punctuation =
    gc_set(Gc::Pc, Gc::Pd, Gc::Ps, Gc::Pe, Gc::Pi, Gc::Pf, Gc::Po);
inline constexpr GcSet k_symbols = gc_set(Gc::Sm, Gc::Sc, Gc::Sk, Gc::So);

/// Category and white space of each code point, in two stages.
class UnicodeTable {
 public:
  /// Returns the one table; the first call expands it (about 1 ms).
  static const UnicodeTable& get();

  /// REQUIRES: c < 0x110000.
  Gc category(char32_t c) const { return static_cast<Gc>(info(c) & 31); }
  bool is_in(char32_t c, GcSet set) const { return (set >> (info(c) & 31) & 1) != 0; }
  /// The 25 code points of White_Space.
  bool is_space(char32_t c) const { return (info(c) & 32) != 0; }

 private:
  UnicodeTable();
  uint8_t info(char32_t c) const { return cells_[size_t{blocks_[c >> 8]} << 8 | (c & 255)]; }
  std::array<uint16_t, 0x1100> blocks_{};
  std::vector<uint8_t> cells_;  // category | 32 where white space
};

/// \w of Rust's regex crate, which says where a single_word token ends: alphabetic, mark, decimal
/// number, connector or joiner.
bool is_word_character(char32_t c);

inline constexpr char32_t k_replacement_character = 0xFFFD;
inline constexpr std::string_view k_replacement = "\xEF\xBF\xBD";

/// Returns the length of the character that begins with `lead`. REQUIRES: a lead byte.
constexpr size_t utf8_size(char lead) {
  const auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
constexpr bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

/// Returns the character at text[at] and moves `at` behind it. REQUIRES: valid UTF-8, at < size.
inline char32_t next_character(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return ++at, lead;
  char32_t c = 0;
  if (lead < 0xE0) {
    c = (lead & 31) << 6 | (byte(1) & 63U);
    at += 2;
  } else if (lead < 0xF0) {
    c = (lead & 15) << 12 | (byte(1) & 63U) << 6 | (byte(2) & 63U);
    at += 3;
  } else {
    c = (lead & 7) << 18 | (byte(1) & 63U) << 12 | (byte(2) & 63U) << 6 | (byte(3) & 63U);
    at += 4;
  }
  return c;
}

/// Returns where the character before `at` begins. REQUIRES: valid UTF-8, 0 < at <= size.
inline size_t previous_begin(std::string_view text, size_t at) {
  --at;
  while (at > 0 && is_continuation(text[at])) --at;
  return at;
}

void append_utf8(std::string& out, char32_t c);
std::string to_utf8(char32_t c);

/// What the bytes at the front of a text are.
struct Utf8Prefix {
  enum class Kind : uint8_t {
    character,   // a whole character of `size` bytes
    incomplete,  // the text ends inside a character that is valid so far
    invalid,     // `size` bytes that no valid text begins with, as few as one U+FFFD stands for
  };
  Kind kind;
  size_t size;
};
/// REQUIRES: text is not empty.
Utf8Prefix utf8_prefix(std::string_view text);

bool is_valid_utf8(std::string_view text);
/// Returns `text` with U+FFFD for each maximal part that is not UTF-8 (Unicode, 3.9, "maximal
/// subpart"), as Python's errors="replace" does.
std::string to_valid_utf8(std::string_view text);

}  // namespace cohort::text
