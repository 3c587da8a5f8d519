#include <gtest/gtest.h>

#include "runtime/config/tree/override.hpp"
#include "tests/support/config_tree.hpp"

namespace cohort::config::config_override_test {
namespace {

/// The tree of `text` after the overrides as YAML text, or the first fault.
std::string applied(std::string_view text, const std::vector<std::string>& overrides) {
  Node root = test::parsed(text);
  for (const std::string& change : overrides) {
    auto result = apply_override(root, change);
    if (!result) return result.error().detail;
  }
  return to_yaml(root);
}

TEST(Override, SetsAddsAndRemoves) {
  EXPECT_EQ(
      applied("a: {b: 1}\nc: ~\n", {"a.b=2", "+a.n=[1, x]", "c.d=-0.5", "~a.b", "e=", "++a.n=7"}),
      "a:\n  n: 7\nc:\n  d: -0.5\ne: \"\"\n");
  EXPECT_EQ(applied("a: {b: 1, c: [x, y]}\n", {"~a.b=1", "a.c.1=z", "~a.c.0", "+n.o.p=1"}),
            "a:\n  c: [z]\nn:\n  o:\n    p: 1\n");
  EXPECT_EQ(applied("a: 1\nb: ~\n", {"~a", "+b=3"}), "b: 3\n");
}

TEST(Override, MapsMergeAndListsReplace) {
  EXPECT_EQ(applied("a: {b: 1, l: [1, 2]}\n", {"a={c: 2, l: [3]}"}),
            "a:\n  b: 1\n  l: [3]\n  c: 2\n");
  EXPECT_EQ(applied("a: {b: 1}\n", {"+a={c: 2}", "++a={b: 3}"}), "a:\n  b: 3\n  c: 2\n");
  EXPECT_EQ(applied("a: {b: 1}\n", {"a=2"}), "a: 2\n");
}

TEST(Override, GoesThroughAReferenceToAMap) {
  EXPECT_EQ(applied("z: {s: 3, t: {u: 1}}\na: ${z}\n", {"a.s=2"}),
            "z:\n  s: 3\n  t:\n    u: 1\na:\n  s: 2\n  t:\n    u: 1\n");
  EXPECT_EQ(applied("y: ${z}\nz: {s: 3}\na: {b: '${y}'}\n", {"a.b={t: 1}"}),
            "y: \"${z}\"\nz:\n  s: 3\na:\n  b:\n    s: 3\n    t: 1\n");
  EXPECT_EQ(applied("z: 3\na: ${z}\n", {"a.s=2"}),
            "override 'a.s=2': 'a' holds '${z}' (set at t.yaml:2), so it has no 's'");
}

TEST(Override, ReadsValuesAsHydraDoes) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "\"\""},
      {"  ", "\"\""},
      {"abc", "abc"},
      {" a b ", "\"a b\""},
      {"null", "~"},
      {"NULL", "~"},
      {"~", "~"},
      {"'null'", "\"null\""},
      {"true", "true"},
      {"1e-6", "1e-6"},
      {"-20.5", "-20.5"},
      {"1_000", "1_000"},
      {"'1'", "\"1\""},
      {"\"a, 'b'\"", "\"a, 'b'\""},
      {R"('it\'s')", "\"it's\""},
      {R"('a\\')", R"("a\\")"},
      {R"('a\nb')", R"("a\\nb")"},
      {R"(a\,b\=c\ )", "\"a,b=c \""},
      {R"(\[x\])", "\"[x]\""},
      {R"(\d+)", R"("\\d+")"},
      {"[]", "[]"},
      {"{}", "{}"},
      {"[1,2, [a,'b c']]", "[1, 2, [a, \"b c\"]]"},
      {"{a:1,b:[x],c:{d:null}}", "a: 1\nb: [x]\nc:\n  d: ~"},
      {"{a: x:y, \"b c\": 2}", "a: \"x:y\"\n\"b c\": 2"},
      {"/data/$x/%y/*.json", "\"/data/$x/%y/*.json\""},
      {"a=b", "\"a=b\""},
      {"${a.b}", "\"${a.b}\""},
      {"x/${oc.env:A,b}/y", "\"x/${oc.env:A,b}/y\""},
      {"<answer>(.*?)</answer>", "\"<answer>(.*?)</answer>\""},
      {"list(range(0,4)) + list([8, 9])", "\"list(range(0,4)) + list([8, 9])\""},
      {"range(0,4)", "\"range(0,4)\""},
      {"[list(range(0,4))]", "[\"list(range(0,4))\"]"},
      {"Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-0.5B"},
      {"√", "\"√\""},
  };
  for (const auto& [text, value] : cases) {
    auto node = parse_override_value(text, Mark{});
    ASSERT_TRUE(node) << text << ": " << node.error().detail;
    EXPECT_EQ(to_yaml(*node), value + "\n") << text;
  }
  EXPECT_TRUE(as_double(*parse_override_value("1e-6", Mark{})));
  EXPECT_FALSE(as_int(*parse_override_value("'7'", Mark{})));
  EXPECT_EQ(as_double(*parse_override_value("1_000.5", Mark{})), 1000.5);
}

TEST(Override, NamesTheFaultAndThePlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a.b", "expected 'key=value', '+key=value', '++key=value' or '~key'"},
      {"=1", "at character 1: '' is not a key path"},
      {"a..b=1", "at character 3: 'a..b' is not a key path"},
      {"a.b.=1", "at character 5: 'a.b.' is not a key path"},
      {"a b=1", "at character 2: 'a b' is not a key path"},
      {"db@x=1", "at character 3: '@' in a key chooses a config group, which is not known here"},
      {"+a.b=1", "'a.b' is set already (t.yaml:1); without '+' it is replaced"},
      {"~a.bb", "there is no 'a.bb'; did you mean 'b'?"},
      {"~x.y", "there is no 'x'"},
      {"~a.b=2", "'a.b' holds '1' (set at t.yaml:1), not '2': it stays"},
      {"a.b.c=1", "'a.b' holds '1' (set at t.yaml:1), so it has no 'c'"},
      {"l.2=1", "'l' is a list of 2 items: there is no item '2'"},
      {"l.x.y=1", "'l' is a list of 2 items: there is no item 'x'"},
      {"a={", "at character 4: expected a key"},
      {"a={b}", "at character 5: expected ':' after the key"},
      {"a={b:1,b:2}", "at character 8: the key 'b' is given twice"},
      {"a={b:1", "at character 7: expected ',' or '}'"},
      {"a=[1,2", "at character 7: expected ',' or ']'"},
      {"a=[1,,2]", "at character 6: expected a value"},
      {"a=[1 2}]", "at character 7: unexpected } inside a plain text; quote the whole text"},
      {"a=1,2", "at character 4: a comma outside of brackets starts a sweep"},
      {"a='x", "at character 3: the quote ' has no end"},
      {"a='x' y", "at character 7: expected the end, found 'y'; quote the text"},
      {"a=it's", "at character 5: unexpected ' inside a plain text; quote the whole text"},
      {"a=choice(1,2)", "at character 3: Hydra's function choice(…) is not known here"},
      {"a=(b", "at character 5: '(' without ')'"},
      {"a=b)", "at character 4: ')' without '('"},
      {"a=${b", "at character 3: '${' without '}'"},
      {"a=\x01", "at character 3: a control byte (0x01)"},
      {"a\xFF=1", "at character 2: not UTF-8 (byte 0xFF)"},
      {"a=\xFF", "at character 3: not UTF-8 (byte 0xFF)"},
  };
  for (const auto& [text, message] : cases) {
    std::string found = applied("a: {b: 1}\nl: [1, 2]\n", {text});
    EXPECT_EQ(found.find("override '"), 0u) << text << ": " << found;
    EXPECT_NE(found.find("': " + message), std::string::npos) << text << ": " << found;
  }
}

TEST(Override, BoundsDepthAndSize) {
  EXPECT_NE(applied("a: 1\n", {"b=" + std::string(5000, '[')}).find("nested deeper than 64"),
            std::string::npos);
  EXPECT_NE(applied("a: 1\n", {"b=" + std::string(200'000, 'x')}).find("a value has at most"),
            std::string::npos);
  std::string many = "b=[0";
  for (int i = 0; i < 30'000; ++i) many += ",1";
  EXPECT_NE(applied("a: 1\n", {many + "]"}).find("more than 20000 values"), std::string::npos);
  for (std::string text : {std::string(300, 'k') + "=1", "b={" + std::string(300, 'k') + ": 1}"})
    EXPECT_NE(applied("a: 1\n", {text}).find("a key of 300 bytes; at most 200"), std::string::npos);
  std::string path = "a";
  for (int i = 0; i < 20; ++i) path += ".a";
  EXPECT_NE(applied("b: 1\n", {path + "=1"}).find("at most 16"), std::string::npos);
  // each step into `a` copies all of it: 20,000 values are soon reached
  std::string map = "a: {self: '${a}'";
  for (int i = 0; i < 2000; ++i) map += ", k" + std::to_string(i) + ": 1";
  std::string found = applied(map + "}\n", {"a.self.self.self.self.self.self.self.self.self=1"});
  EXPECT_NE(found.find("references expand to more than 20000 values"), std::string::npos)
      << found.substr(0, 300);
}

}  // namespace
}  // namespace cohort::config::config_override_test
