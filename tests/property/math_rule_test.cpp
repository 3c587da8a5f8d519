// math_rule on generated answers: an answer equals each of its other writings, is symmetric, and
// differs from what differs in value. Values are computed beside the writing, in exact fractions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <string>

#include "runtime/base/rng.hpp"
#include "runtime/tasks/scorers/math_answer.hpp"

namespace cohort::tasks::math {
namespace {

uint64_t seed() {
  const char* text = std::getenv("COHORT_SEED");
  return text == nullptr ? 20261121 : std::strtoull(text, nullptr, 10);
}

struct Fraction {
  int64_t top = 0, bottom = 1;
  bool operator==(const Fraction& other) const { return top * other.bottom == other.top * bottom; }
};

/// An expression without variables, in one writing, and its value.
struct Written {
  std::string text;
  Fraction value;
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : rng_(seed) {}

  int64_t below(int64_t n) { return static_cast<int64_t>(rng_.below(static_cast<uint64_t>(n))); }
  bool coin() { return below(2) == 0; }

  Written constant(int depth) {
    int64_t kind = depth == 0 ? 0 : below(6);
    if (kind == 0) {
      int64_t n = below(20) + 1;
      return {std::to_string(n), {n, 1}};
    }
    Written a = constant(depth - 1), b = constant(depth - 1);
    const Fraction &x = a.value, &y = b.value;
    bool is_large =
        std::abs(x.top) > 10000 || std::abs(y.top) > 10000 || x.bottom > 10000 || y.bottom > 10000;
    if (is_large) return a;
    Written out;
    if (kind == 1) {
      out = {bracketed(a) + " + " + bracketed(b),
             {x.top * y.bottom + y.top * x.bottom, x.bottom * y.bottom}};
    } else if (kind == 2) {
      out = {bracketed(a) + "-" + bracketed(b),
             {x.top * y.bottom - y.top * x.bottom, x.bottom * y.bottom}};
    } else if (kind == 3 || y.top == 0) {
      const char* times = coin() ? " \\cdot " : " \\times ";
      std::string product =
          coin() ? bracketed(a) + times + bracketed(b) : bracketed(a) + "(" + b.text + ")";
      out = {product, {x.top * y.top, x.bottom * y.bottom}};
    } else {
      std::string quotient = coin() ? fmt::format("\\frac{{{}}}{{{}}}", a.text, b.text)
                                    : bracketed(a) + "/" + bracketed(b);
      out = {quotient, {x.top * y.bottom, x.bottom * y.top}};
    }
    int64_t common = std::gcd(out.value.top, out.value.bottom);
    if (common > 1) out.value = {out.value.top / common, out.value.bottom / common};
    if (out.value.bottom < 0) out.value = {-out.value.top, -out.value.bottom};
    return out;
  }

  /// A polynomial in x and y as a product of linear factors, and multiplied out.
  std::pair<std::string, std::string> polynomial() {
    int64_t a = below(9) + 1, b = below(19) - 9, c = below(9) + 1, d = below(19) - 9;
    std::string factored = fmt::format("({}x{:+}y)({}x{:+}y)", a, b, c, d);
    std::string expanded = fmt::format("{}x^2 {:+}xy {:+}y^{{2}}", a * c, a * d + b * c, b * d);
    return {factored, expanded};
  }

 private:
  static std::string bracketed(const Written& x) {
    return x.text.find_first_not_of("0123456789") == std::string::npos ? x.text
                                                                       : "(" + x.text + ")";
  }

  Rng rng_;
};

std::string canonical(const Fraction& x) {
  return x.bottom == 1 ? std::to_string(x.top) : fmt::format("\\frac{{{}}}{{{}}}", x.top, x.bottom);
}

TEST(MathRuleProperty, ConstantsEqualTheirValueAndNoOther) {
  Generator generate(seed());
  Written last = generate.constant(3);
  for (int i = 0; i < 20000; ++i) {
    Written x = generate.constant(static_cast<int>(generate.below(5)));
    std::string value = canonical(x.value);
    ASSERT_TRUE(same_answer(x.text, x.text)) << x.text;
    ASSERT_TRUE(same_answer(x.text, value)) << x.text << " = " << value << ", round " << i;
    ASSERT_TRUE(same_answer(value, x.text)) << x.text << " = " << value;
    ASSERT_EQ(same_answer(x.text, last.text), x.value == last.value)
        << x.text << " | " << last.text << ", round " << i;
    ASSERT_EQ(same_answer(last.text, x.text), x.value == last.value);
    last = x;
  }
}

TEST(MathRuleProperty, PolynomialsEqualTheirExpansionAndNoOther) {
  Generator generate(seed() + 1);
  auto last = generate.polynomial();
  for (int i = 0; i < 5000; ++i) {
    auto [factored, expanded] = generate.polynomial();
    ASSERT_TRUE(same_answer(factored, expanded)) << factored << " | " << expanded;
    ASSERT_TRUE(same_answer("f(x,y) = " + expanded, factored)) << factored;
    if (expanded != last.second) {
      ASSERT_FALSE(same_answer(factored, last.second)) << factored << " | " << last.second;
    }
    last = {factored, expanded};
  }
}

TEST(MathRuleProperty, ListsAreUnorderedAndTuplesOrdered) {
  Generator generate(seed() + 2);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> items, turned;
    auto count = static_cast<size_t>(generate.below(5) + 2);
    for (size_t k = 0; k < count; ++k)
      items.push_back(fmt::format("{}", static_cast<int64_t>(k) * 50 + generate.below(50)));
    auto shift = static_cast<size_t>(generate.below(static_cast<int64_t>(count) - 1) + 1);
    for (size_t k = 0; k < count; ++k) turned.push_back(items[(k + shift) % count]);
    std::string a = fmt::format("{}", fmt::join(items, ", "));
    std::string b = fmt::format("{}", fmt::join(turned, ", "));
    ASSERT_TRUE(same_answer(a, b)) << a << " | " << b;
    ASSERT_TRUE(same_answer("\\{" + a + "\\}", b)) << a;
    ASSERT_FALSE(same_answer("(" + a + ")", "(" + b + ")")) << a << " | " << b;
    ASSERT_TRUE(same_answer("(" + a + ")", "\\left( " + a + " \\right)")) << a;
    ASSERT_FALSE(same_answer(a, b + ", 999")) << a;
  }
}

/// Symmetry on text that is nearly mathematics.
TEST(MathRuleProperty, AnyTwoTextsCompareTheSameInBothOrders) {
  constexpr std::string_view k_pieces[] = {
      "1",   "2",   "x",       "y",     "+",     "-",       "\\frac", "{",    "}", "(",
      ")",   ",",   "=",       "<",     "\\pm ", "\\sqrt",  "^",      "[",    "]", "\\{",
      "\\}", "5%",  "\\text{", "cm",    " or ",  "\\pi ",   "e",      "i",    "!", "|",
      "_",   "0.5", "\\infty", "\\sin", ":",     "^\\circ", "1,000",  "\\\\", "&", "yes"};
  Generator generate(seed() + 3);
  std::string last = "1";
  size_t equal = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string text;
    for (int64_t k = generate.below(7) + 1; k > 0; --k)
      text += k_pieces[static_cast<size_t>(generate.below(std::ssize(k_pieces)))];
    bool is_same = same_answer(text, last);
    ASSERT_EQ(is_same, same_answer(last, text)) << text << " | " << last << ", round " << i;
    equal += is_same ? 1 : 0;
    if (generate.coin()) last = text;
  }
  EXPECT_GT(equal, 20u);  // the texts are short enough to meet
}

}  // namespace
}  // namespace cohort::tasks::math
