// Whatever an expression matches has its required literal.
#include "tools/traj/required_literal.hpp"

#include <gtest/gtest.h>

#include "runtime/base/rng.hpp"
#include "runtime/tasks/pattern.hpp"

namespace cohort::traj {
namespace {

TEST(RequiredLiteral, IsTheLongestRunOutsideOfGroupsAndClasses) {
  EXPECT_EQ(required_literal("needle [0-9]+"), "needle ");
  EXPECT_EQ(required_literal("ab?cde"), "cde");
  EXPECT_EQ(required_literal("ab+c"), "ab");
  EXPECT_EQ(required_literal("^<answer>(Up|Down)</answer>$"), "</answer>");
  EXPECT_EQ(required_literal("1\\+1 = 2"), "1+1 = 2");
  EXPECT_EQ(required_literal("[]x]y"), "y");
  EXPECT_EQ(required_literal("a{2}bc"), "bc");
  EXPECT_EQ(required_literal("\\d\\d:\\d\\d"), ":");
}

TEST(RequiredLiteral, IsEmptyWhereThereIsNone) {
  for (const char* expression : {"", ".*", "foo|bar", "(?i)foo", "(*UTF)foo", "\\x41bc", "\\Qa|b",
                                 "[[:alpha:]]foo", "(foo)", "x*", "\\1foo", "(?=foo)foo"})
    EXPECT_EQ(required_literal(expression), "") << expression;
}

TEST(RequiredLiteral, EveryMatchHasIt) {
  constexpr std::string_view k_pieces[] = {
      "a",     "b",   "c",  "a",   "b",    "ab",    ".",    "\\.",  "*", "+",   "?",    "{2}",
      "|",     "(",   ")",  "(?:", "[",    "]",     "[ab]", "^",    "$", "\\d", "[^a]", "\\\\",
      "{0,1}", "\\b", "[a", "\\[", "(?i)", "\\x61", "\\n",  "[]a]", "-", "}"};
  size_t matches = 0, literals = 0;
  for (uint64_t seed = 1; seed <= 60000; ++seed) {
    Rng rng(seed);
    std::string expression, text;
    for (uint64_t i = 1 + rng.below(7); i > 0; --i)
      expression += k_pieces[rng.below(std::size(k_pieces))];
    const auto pattern = tasks::Pattern::compile(expression);
    if (!pattern) continue;
    const std::string literal = required_literal(expression);
    literals += literal.empty() ? 0 : 1;
    for (int i = 0; i < 4; ++i) {
      text.clear();
      for (uint64_t n = rng.below(12); n > 0; --n) text += "aabbcA1.\\[{}-^]\n"[rng.below(16)];
      if (!pattern->search(text)) continue;
      ++matches;
      ASSERT_NE(text.find(literal), std::string::npos)
          << "'" << expression << "' matches '" << text << "' without '" << literal << "'";
    }
  }
  EXPECT_GT(matches, 10000U);
  EXPECT_GT(literals, 5000U);
}

}  // namespace
}  // namespace cohort::traj
