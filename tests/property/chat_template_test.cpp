// Random templates never crash and give the same twice; operators bind as Jinja's
// table says.
#include "runtime/text/template/chat_template.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/base/rng.hpp"

namespace cohort::text {
namespace {

using PropertyJson = nlohmann::ordered_json;

uint64_t template_seed() {
  const char* text = std::getenv("COHORT_SEED");
  const uint64_t seed = text == nullptr ? 20261122 : std::strtoull(text, nullptr, 10);
  std::printf("COHORT_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

PropertyJson variables() {
  return PropertyJson::parse(R"({"a": 3, "b": [1, "x", null], "c": {"k": "v", "items": 2},
      "s": " é <t> ", "f": 1.5, "e": []})");
}

/// Parts that templates are made of, joined without sense.
std::string random_template(Rng& rng) {
  static const std::vector<std::string> parts{
      "{{",     "}}",        "{%",       "%}",          "{%-",        "-%}",
      "{#",     "#}",        " if ",     " else ",      " elif ",     " endif ",
      " for ",  " in ",      " endfor ", " set ",       " macro ",    " endmacro ",
      " call ", " endcall ", " filter ", " endfilter ", " is ",       " not ",
      " and ",  " or ",      "a",        "b",           "c",          "s",
      "f",      "zz",        "loop",     ".",           "[",          "]",
      "(",      ")",         "{",        "}",           "|",          ",",
      ":",      "=",         "==",       "+",           "-",          "*",
      "**",     "~",         "//",       "%",           "<",          "1",
      "0",      "2.5",       "'x'",      "\"",          "\\",         "\n",
      " ",      "upper",     "tojson",   "length",      "items",      "split",
      "join",   "map",       "list",     "defined",     "range",      "namespace",
      "caller", "é",         "raw",      "endraw",      "generation", "endgeneration"};
  std::string text;
  for (uint64_t i = rng.below(60); i > 0; --i) text += parts[rng.below(parts.size())];
  return text;
}

/// A sensible expression over a few values, so that evaluation is reached.
std::string random_expression(Rng& rng, int depth) {
  static const std::vector<std::string> atoms{"a", "b",  "c", "s",   "f",
                                              "e", "zz", "1", "'q'", "none"};
  static const std::vector<std::string> binary{" + ",  " - ", " * ",  " / ",   " // ", " % ", " ~ ",
                                               " == ", " < ", " in ", " and ", " or ", " ** "};
  static const std::vector<std::string> unary{
      "|upper",        "|length",        "|list",     "|tojson",     "|first",
      "|join('-')",    "|sort",          "|int",      "|string",     "|trim",
      "|default('d')", "|map('string')", "|batch(2)", ".k",          ".items()",
      "[0]",           "[::-1]",         "[1:]",      " is defined", " is mapping",
      ".split()",      ".upper()",       "|reverse",  "|unique",     "|e"};
  if (depth == 0) return atoms[rng.below(atoms.size())];
  const std::string left = random_expression(rng, depth - 1);
  if (rng.below(2) == 0) return "(" + left + ")" + unary[rng.below(unary.size())];
  return "(" + left + binary[rng.below(binary.size())] + random_expression(rng, depth - 1) + ")";
}

void render_twice(const std::string& source) {
  const TemplateLimits limits{
      .steps = 20'000, .live_bytes = size_t{4} << 20, .output_bytes = size_t{1} << 20};
  const auto compiled = ChatTemplate::compile(source);
  if (!compiled) {
    EXPECT_FALSE(compiled.error().detail.empty());
    return;
  }
  const auto first = compiled->render(variables(), limits);
  const auto second = compiled->render(variables(), limits);
  ASSERT_EQ(first.has_value(), second.has_value()) << source;
  if (!first) return;
  EXPECT_EQ(first->text, second->text) << source;
}

TEST(ChatTemplateProperty, RandomTextIsATemplateOrAnError) {
  Rng rng(template_seed());
  for (int i = 0; i < 20'000; ++i) render_twice(random_template(rng));
}

TEST(ChatTemplateProperty, RandomExpressionsHaveOneValueOrAnError) {
  Rng rng(template_seed());
  for (int i = 0; i < 10'000; ++i)
    render_twice("{% for x in [1, 2] %}{{ " + random_expression(rng, 4) + " }}{% endfor %}");
}

/// Levels of precedence, loosest first; operators of one level go from the left.
struct Level {
  std::vector<const char*> operators;
};

/// Without brackets an expression is what it is with brackets by the table.
TEST(ChatTemplateProperty, OperatorsBindAsInTheTable) {
  const std::vector<Level> levels{{{"or"}}, {{"and"}}, {{"+", "-"}}, {{"*", "//", "%"}}, {{"**"}}};
  Rng rng(template_seed());
  const auto value_of = [](const std::string& expression) {
    const auto chat = ChatTemplate::compile("{{ " + expression + " }}").value().render(variables());
    return chat ? chat->text : "error";
  };
  for (int i = 0; i < 3'000; ++i) {
    std::vector<std::string> operands;
    std::vector<std::pair<std::string, size_t>> operators;
    std::string plain;
    for (size_t k = 0; k < 5; ++k) {
      operands.push_back(std::to_string(rng.below(4)));
      plain += (k > 0 ? " " + operators.back().first + " " : "") + operands.back();
      const size_t level = rng.below(levels.size());
      const auto& names = levels[level].operators;
      if (k < 4) operators.emplace_back(names[rng.below(names.size())], level);
    }
    const std::string shown = plain;
    for (size_t level = levels.size(); level-- > 0;)
      for (size_t k = 0; k < operators.size();) {
        if (operators[k].second != level) {
          ++k;
          continue;
        }
        operands[k] = "(" + operands[k] + " " + operators[k].first + " " + operands[k + 1] + ")";
        operands.erase(operands.begin() + static_cast<ptrdiff_t>(k) + 1);
        operators.erase(operators.begin() + static_cast<ptrdiff_t>(k));
      }
    EXPECT_EQ(value_of(shown), value_of(operands[0])) << shown << " as " << operands[0];
  }
}

}  // namespace
}  // namespace cohort::text
