// UTF-8, classes and NFC at their corners. Whole texts: tests/golden/tokenizer_vectors_test.cpp.
#include <gtest/gtest.h>

#include <string>

#include "runtime/text/byte_level.hpp"
#include "runtime/text/nfc.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text {
namespace {

TEST(TextUnicode, CountsOfEachClassAreThoseOfUnicode16) {
  const UnicodeTable& table = UnicodeTable::get();
  size_t letters = 0, numbers = 0, marks = 0, punctuation = 0, symbols = 0, spaces = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    letters += table.is_in(c, k_letters);
    numbers += table.is_in(c, k_numbers);
    marks += table.is_in(c, k_marks);
    punctuation += table.is_in(c, k_punctuation);
    symbols += table.is_in(c, k_symbols);
    spaces += table.is_space(c);
  }
  EXPECT_EQ(letters, 141028U);
  EXPECT_EQ(numbers, 1911U);
  EXPECT_EQ(marks, 2501U);
  EXPECT_EQ(punctuation, 855U);
  EXPECT_EQ(symbols, 8514U);
  EXPECT_EQ(spaces, 25U);
}

TEST(TextUnicode, ReplacesEachMaximalPart) {
  const std::string r(k_replacement);
  EXPECT_EQ(to_valid_utf8("a\xFFz"), "a" + r + "z");
  EXPECT_EQ(to_valid_utf8("\xE4\xBD"), r);
  EXPECT_EQ(to_valid_utf8("\xE4\xBDz"), r + "z");
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), r + r + r);          // a surrogate
  EXPECT_EQ(to_valid_utf8("\xC0\x80"), r + r);                  // too long a form
  EXPECT_EQ(to_valid_utf8("\xF4\x90\x80\x80"), r + r + r + r);  // above U+10FFFF
  EXPECT_EQ(to_valid_utf8("\xF0\x9F\x98"), r);
  for (const char32_t c : {U'a', U'\u00e9', U'\u4f60', U'\U0010ffff'}) {
    const std::string text = to_utf8(c);
    size_t at = 0;
    EXPECT_TRUE(is_valid_utf8(text));
    EXPECT_EQ(next_character(text, at), c);
    EXPECT_EQ(at, text.size());
    EXPECT_EQ(previous_begin(text, text.size()), 0U);
  }
}

struct NfcCase {
  const char32_t* text;
  const char32_t* expected;
};

std::string utf8(const char32_t* text) {
  std::string out;
  for (; *text != 0; ++text) append_utf8(out, *text);
  return out;
}

TEST(TextUnicode, ComposesAsTheReference) {
  const NfcCase cases[] = {
      {U"e\u0301", U"\u00e9"},
      {U"a\u0307\u0323", U"\u1ea1\u0307"},  // reordered, then composed
      {U"\u1112\u1161\u11ab", U"\ud55c"},   // Hangul by arithmetic
      {U"\uac00\u11a8", U"\uac01"},
      {U"\u212b", U"\u00c5"},
      {U"\u0958", U"\u0915\u093c"},  // never composed again
      {U"\u0344", U"\u0308\u0301"},
      {U"e\u0334\u0301", U"\u00e9\u0334"},   // over a mark of a lower class
      {U"a\u0305\u0301", U"a\u0305\u0301"},  // not over one of the same
      {U"\u0301a", U"\u0301a"},
      {U"\u0eba\u0301", U"\u0eba\u0301"},
      {U"a\u0301\u0eba", U"\u00e1\u0eba"},                 // U+0EBA has no class in Unicode 9
      {U"\U00011935\U00011930", U"\U00011935\U00011930"},  // composed since Unicode 13 alone
      {U"plain", U"plain"},
  };
  for (const NfcCase& x : cases) {
    const std::string text = utf8(x.text);
    std::vector<Span> origins;
    EXPECT_EQ(to_nfc(text, &origins), utf8(x.expected)) << text;
    EXPECT_EQ(origins.size(), utf8(x.expected).size());
    EXPECT_TRUE(!is_surely_nfc(text) || to_nfc(text, nullptr) == text);
  }
}

TEST(TextUnicode, BytesOfCharacters) {
  EXPECT_EQ(bytes_of_characters("a\xC4\xA0\xC3\xA9"), "a \xE9");
  EXPECT_EQ(bytes_of_characters("\xC5\x83"), "\xAD");  // U+0143, the last of the 68
  EXPECT_EQ(bytes_of_characters("\xC5\x84"), std::nullopt);
  EXPECT_EQ(bytes_of_characters(" "), std::nullopt);
}

}  // namespace
}  // namespace cohort::text
