// The matcher of tokenizer.json's regular expressions: what it finds, what it refuses, and that a
// pattern that goes back and forth ends.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/text/regex.hpp"

namespace cohort::text {
namespace {

/// Returns all matches, joined by "|".
std::string matches(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::compile(pattern);
  if (!regex) return regex.error().to_string();
  std::string all;
  StepBudget budget{1'000'000};
  Span match;
  for (size_t from = 0; regex->find(text, from, match, budget) == Regex::Result::found;) {
    all +=
        (all.empty() ? "" : "|") + std::string(text.substr(match.begin, match.end - match.begin));
    from = match.end > match.begin ? match.end : match.end + 1;
    if (from > text.size()) break;
  }
  return all;
}

struct MatchCase {
  const char* pattern;
  const char* text;
  const char* expected;
};

TEST(TextRegex, FindsWhatPerlFinds) {
  const MatchCase cases[] = {
      {"a|ab", "ab", "a"},  // alternation is ordered
      {"ab|a", "abac", "ab|a"},
      {"a+?b", "aab", "aab"},
      {"a{2,3}", "aaaaa", "aaa|aa"},
      {"a{,2}b", "aaab", "aab"},
      {"(?:ab){2}", "ababab", "abab"},
      {"(a|b)*c", "abac", "abac"},
      {"\\s+(?!\\S)", "a   b ", "  | "},
      {"(?=b)\\w", "abc", "b"},
      {"a++a", "aaa", ""},  // a possessive loop gives nothing back
      {"(?>a|ab)c", "abc", ""},
      {"\\d{1,2}+x", "1234x", "1234x"},  // Ruby: the counted group, again and again
      {"(?i:don't)", "DON'T don't", "DON'T|don't"},
      {"(?i:k)", "K\xE2\x84\xAA", "K|\xE2\x84\xAA"},
      {"(?i:'s)", "'\xC5\xBF", "'\xC5\xBF"},
      {"[^a-c\\d]", "a1x", "x"},
      {"[\\]\\-a]", "-]b", "-|]"},
      {"\\p{Lu}\\p{^Lu}", "aBc", "Bc"},
      {"\\P{L}", "a1", "1"},
      {"\\x41\\u0042\\x{43}", "ABC", "ABC"},
      {"^b$", "a\nb\nc", "b"},
      {"\\Aa|a\\z", "aba", "a|a"},
      {".", "\n\xC3\xA9", "\xC3\xA9"},
      {"\\w", "\xC2\xBD", "\xC2\xBD"},  // the reference's engine takes ½ for a letter here,
      {"[\\w]", "\xC2\xBD", ""},        // but not here
      {"[a-f&&[^c]]", "abcg", "a|b"},
      {"[^a-f&&[d-z]]", "cdg", "c|g"},
      {"[a-f&&[^c]&&[^d]]", "cdef", "e|f"},
      {"\\bab\\b|\\Bx", "ab cab ab_ x\xC2\xB2x", "ab|x"},
      {"\\p{Han}+|\\P{Han}", "\xE6\xB9\x96\xE3\x80\x85\xE3\x81\xAE",
       "\xE6\xB9\x96\xE3\x80\x85|\xE3\x81\xAE"},
      {"", "a", ""},
  };
  for (const MatchCase& x : cases) EXPECT_EQ(matches(x.pattern, x.text), x.expected) << x.pattern;
}

TEST(TextRegex, SaysWhatItCannotExpress) {
  const MatchCase cases[] = {
      {"(?<=a)b", "", "this kind of group"},
      {"(?<n>a)", "", "this kind of group"},
      {"(a)\\1", "", "\\1 is not supported"},
      {"\\p{Greek}", "", "\\p{Greek}"},
      {"[[:alpha:]]", "", "a class in a class"},
      {"[a&&b]", "", "&& without a class"},
      {"[&&[b]]", "", "&& with nothing before it"},
      {"[a&&[b]c]", "", "more than a class behind &&"},
      {"(?i:[a&&[b]])", "", "case-insensitive"},
      {"(?i:stra\xC3\x9F)", "", "case-insensitive"},
      {"(?i:ss)", "", "\"ss\" in case-insensitive text"},
      {"(?:a*)*", "", "may be empty"},
      {"a{2000}", "", "at most 1000"},
      {"(?:(?:a{1000}){1000}){1000}", "", "too large"},
      {"(a", "", "')' is missing"},
      {"a)", "", "a ')' too many"},
      {"[a", "", "']' is missing"},
      {"[b-a]", "", "the larger"},
      {"*a", "", "nothing to repeat"},
      {"\\", "", "ends too early"},
      {"\xFF", "", "not UTF-8"},
  };
  for (const MatchCase& x : cases) {
    const auto regex = Regex::compile(x.pattern);
    ASSERT_FALSE(regex) << x.pattern;
    EXPECT_NE(regex.error().detail.find(x.expected), std::string::npos) << regex.error().detail;
  }
  EXPECT_FALSE(Regex::compile(std::string(200, '(') + std::string(200, ')')));
  EXPECT_FALSE(Regex::compile(std::string(Regex::k_pattern_bytes_max + 1, 'a')));
}

TEST(TextRegex, EndsWhereAPatternGoesBackAndForth) {
  const auto regex = Regex::compile("(?:(?:a|aa)+(?:a|aa)+)+b").value();
  const std::string text(200, 'a');
  StepBudget budget{100'000};
  Span match;
  EXPECT_EQ(regex.find(text, 0, match, budget), Regex::Result::out_of_steps);
  EXPECT_EQ(budget.steps, 0U);
}

TEST(TextRegex, TakesStepsInProportionToALongRun) {
  const auto regex = Regex::compile("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+").value();
  const auto steps = [&](size_t size) {
    StepBudget budget{UINT64_MAX};
    Span match;
    EXPECT_EQ(regex.find(std::string(size, ' ') + "x", 0, match, budget), Regex::Result::found);
    EXPECT_EQ(match.end, size - 1);
    return static_cast<double>(UINT64_MAX - budget.steps);
  };
  EXPECT_LT(steps(100'000) / steps(10'000), 11);
}

}  // namespace
}  // namespace cohort::text
