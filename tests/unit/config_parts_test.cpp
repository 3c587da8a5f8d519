#include <gtest/gtest.h>

#include "runtime/config/compose.hpp"
#include "runtime/config/device_mapping.hpp"
#include "runtime/config/interpolate.hpp"
#include "runtime/config/suggest.hpp"
#include "runtime/config/yaml_reader.hpp"

namespace cohort::config {
namespace {

using Ids = std::vector<uint32_t>;

Node parsed(std::string_view text) {
  auto node = parse_yaml(text, "t.yaml");
  EXPECT_TRUE(node) << node.error().detail;
  return node ? *node : Node{};
}

InterpolationSources fixed_sources() {
  return {[](const std::string& name) -> std::optional<std::string> {
            return name == "HOME_DIR" ? std::optional<std::string>("/home/x") : std::nullopt;
          },
          [](const std::string& format) { return "<" + format + ">"; }};
}

/// The value at `path` after interpolation, as YAML text, or the first problem.
std::string interpolated(std::string_view text, std::string_view path) {
  Interpolated result = interpolate(parsed(text), fixed_sources());
  if (!result.problems.empty())
    return result.problems[0].mark.file_line_column() + ": " + result.problems[0].text;
  const Node* node = result.root.at_path(path);
  return node == nullptr ? "(none)" : to_yaml(*node);
}

TEST(DeviceMapping, ReadsEveryForm) {
  const std::vector<std::pair<std::string, Ids>> cases = {
      {"list(range(0,4))", {0, 1, 2, 3}},
      {"list(range(2))", {0, 1}},
      {"list(range(0,8,3))", {0, 3, 6}},
      {"list(range(3, 0, -1))", {3, 2, 1}},
      {"list(range(0,2)) + list(range(8,10))", {0, 1, 8, 9}},
      {"list([1,3])", {1, 3}},
      {"[5, 7,]", {5, 7}},
      {"(range(0,1)+[4])", {0, 4}},
      {" list( range( 0 , 1 ) ) ", {0}},
      {"[]", {}},
  };
  for (const auto& [text, ids] : cases) {
    auto result = parse_device_mapping(text);
    ASSERT_TRUE(result) << text << ": " << result.error().detail;
    EXPECT_EQ(*result, ids) << text;
  }
}

TEST(DeviceMapping, SaysWhereItStops) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"list(rnge(0,4))",
       "expected list(...), range(...) or [...] at character 6, found 'rnge(0,4))'"},
      {"list(range(0,4)", "expected ')' at character 16, found the end"},
      {"list(range())", "range with 1 to 3 numbers before"},
      {"list(range(0,4,0))", "a step other than 0 before"},
      {"list(range(0,2)) + [1]", "card id 1 is listed twice"},
      {"[0, -1]", "card id -1 is not in 0..65535"},
      {"[0 1]", "expected ',' at character 4, found '1]'"},
      {"__import__('os')", "expected list(...), range(...) or [...] at character 1"},
      {"list(range(0,99999999999))", "expected a card id at character 14"},
      {"list(range(0,60000))", "at most 4096 cards"},
      {"", "found the end"},
  };
  for (const auto& [text, message] : cases) {
    auto result = parse_device_mapping(text);
    ASSERT_FALSE(result) << text;
    EXPECT_NE(result.error().detail.find(message), std::string::npos) << result.error().detail;
  }
}

TEST(Interpolate, ResolvesFromTheRoot) {
  EXPECT_EQ(interpolated("a: {b: 7}\nc: ${a.b}\n", "c"), "7\n");
  EXPECT_EQ(interpolated("a: x\nb: /m/${a}/${a}y\n", "b"), "/m/x/xy\n");
  EXPECT_EQ(interpolated("a: {k: 1, l: [2, 3]}\nb: ${a}\n", "b"), "k: 1\nl: [2, 3]\n");
  EXPECT_EQ(interpolated("n: 64\nenv:\n  L:\n    t: ${n}\nuse:\n  L:\n    ${env.L}\n", "use.L.t"),
            "64\n");
  EXPECT_EQ(interpolated("a: ${b}\nb: {c: 5}\nd: ${a.c}\n", "d"), "5\n");
  EXPECT_EQ(interpolated("l: [10, 20]\nb: ${l.1}\n", "b"), "20\n");
  EXPECT_EQ(interpolated("k: b\na: {b: 3}\nx: ${a.${k}}\n", "x"), "3\n");
  EXPECT_EQ(interpolated("x: \\${a}\n", "x"), "\"${a}\"\n");
}

TEST(Interpolate, KnowsTwoResolvers) {
  EXPECT_EQ(interpolated("x: ${oc.env:HOME_DIR}/y\n", "x"), "/home/x/y\n");
  EXPECT_EQ(interpolated("x: ${oc.env:MISSING,12}\n", "x"), "12\n");
  EXPECT_EQ(interpolated("x: r-${now:%Y%m%d}\n", "x"), "\"r-<%Y%m%d>\"\n");
}

TEST(Interpolate, NamesTheFault) {
  EXPECT_EQ(interpolated("batch_size: 1\nx: ${batch_sise}\n", "x"),
            "t.yaml:2:4: '${batch_sise}' names no key: there is no 'batch_sise'; did you mean "
            "'batch_size'?");
  EXPECT_EQ(interpolated("x: ${x}\n", "x"), "t.yaml:1:4: interpolation cycle at '${x}'");
  EXPECT_EQ(interpolated("a:\n  b: ${a}\n", "a"), "t.yaml:2:6: interpolation cycle at '${a}'");
  EXPECT_EQ(interpolated("x: ${oc.env:MISSING}\n", "x"),
            "t.yaml:1:4: environment variable MISSING is not set and has no default (write "
            "${oc.env:MISSING,value})");
  EXPECT_EQ(interpolated("x: ${eval:1+1}\n", "x"),
            "t.yaml:1:4: unknown resolver 'eval' (known: now, oc.env)");
  EXPECT_EQ(interpolated("a: {b: 1}\nx: s${a}\n", "x"),
            "t.yaml:2:4: 's${a}' splices a map into a text");
  EXPECT_EQ(interpolated("x: a${b\n", "x"), "t.yaml:1:4: '${' without '}' in 'a${b'");
}

TEST(Override, SetsAddsAndRemoves) {
  Node root = parsed("a: {b: 1}\nc: ~\n");
  for (const char* text : {"a.b=2", "+a.n=[1, x]", "c.d=-0.5", "~a.b", "e=", "++a.n=7"}) {
    auto applied = apply_override(root, text);
    ASSERT_TRUE(applied) << applied.error().detail;
  }
  EXPECT_EQ(to_yaml(root), "a:\n  n: 7\nc:\n  d: -0.5\ne: \"\"\n");
}

TEST(Override, NamesTheFault) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a.b", "override 'a.b': expected 'key=value', '+key=value' or '~key'"},
      {"=1", "override '=1': '' is not a key path"},
      {"a..b=1", "override 'a..b=1': 'a..b' is not a key path"},
      {"+a.b=1", "override '+a.b=1': 'a.b' is set already (t.yaml:1); without '+' it is replaced"},
      {"~a.bb", "override '~a.bb': there is no 'a.bb'; did you mean 'b'?"},
      {"~x.y", "override '~x.y': there is no 'x'"},
      {"a.b.c=1", "override 'a.b.c=1': 'a.b' holds '1' (set at t.yaml:1), so it has no 'c'"},
      {"a={", "override 'a={': not valid YAML: "},
  };
  for (const auto& [text, message] : cases) {
    Node root = parsed("a: {b: 1}\n");
    auto applied = apply_override(root, text);
    ASSERT_FALSE(applied) << text;
    EXPECT_TRUE(applied.error().detail.starts_with(message)) << applied.error().detail;
  }
}

TEST(YamlReader, RefusesWhatIsNoConfig) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a: 1\nb: 2\na: 3\n", "t.yaml:3:1: duplicate key 'a' (first at line 1)"},
      {"a: [1, 2\n", "t.yaml:2:1: not valid YAML: "},
      {"a: 1\n---\nb: 2\n", "t.yaml:1:1: more than one YAML document"},
      {"a: 1\n]\n", "t.yaml:"},
      {"a: *x\n", "t.yaml:1:4: not valid YAML: "},
      {"? [1]\n: 2\n", "t.yaml:1:3: a key must be a scalar"},
      {"a: &x [*x]\n", "t.yaml:1:"},
      {std::string("a: \0b\n", 6), "t.yaml:1:1: not a text: it contains a zero byte"},
  };
  for (const auto& [text, message] : cases) {
    auto node = parse_yaml(text, "t.yaml");
    ASSERT_FALSE(node) << text;
    EXPECT_TRUE(node.error().detail.starts_with(message)) << node.error().detail;
  }
}

TEST(YamlReader, BoundsWhatAliasesMultiply) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    std::string alias = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + alias;
    for (int j = 1; j < 10; ++j) text += ", " + alias;
    text += "]\n";
  }
  auto node = parse_yaml(text, "t.yaml");
  ASSERT_FALSE(node);
  EXPECT_NE(node.error().detail.find("more than 20000 nodes"), std::string::npos)
      << node.error().detail;
}

TEST(Suggest, NearestNameWithinAThird) {
  const std::vector<std::string> names = {"training_args", "model_args", "data_args"};
  EXPECT_EQ(nearest_name("traning_args", names), "training_args");
  EXPECT_EQ(nearest_name("modle_args", names), "model_args");
  EXPECT_EQ(nearest_name("zzz", names), "");
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
}

TEST(NodeText, WritesWhatReadsBack) {
  Node root = Node::make_map({});
  const std::vector<std::string> texts = {"",    "~",       "true",   "1e3",   "a: b",  "#x",
                                          "- y", "x\ny\n",  "x\n\ny", " lead", "tab\t", "q\"'\\",
                                          "\n",  "a\n b\n", "√ P_\n", "{a}",   "null"};
  for (size_t i = 0; i < texts.size(); ++i)
    root.set("k" + std::to_string(i), {}, Node::make_scalar(texts[i], true));
  Node again = parsed(to_yaml(root));
  for (size_t i = 0; i < texts.size(); ++i) {
    const Entry* entry = again.find("k" + std::to_string(i));
    ASSERT_NE(entry, nullptr) << i;
    EXPECT_EQ(entry->node().scalar, texts[i]) << i;
    EXPECT_EQ(entry->node().kind, NodeKind::scalar) << i;
  }
}

}  // namespace
}  // namespace cohort::config
