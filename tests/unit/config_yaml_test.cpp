#include <gtest/gtest.h>

#include "runtime/config/tree/utf8_text.hpp"
#include "runtime/config/tree/yaml_reader.hpp"
#include "tests/support/config_tree.hpp"

namespace cohort::config::config_yaml_test {
namespace {

using test::parsed;
using test::yaml_fault;

TEST(YamlReader, ReadsWhatSeedFilesHold) {
  Node root = parsed(
      "a: ~\nlookup: {0: \"W\", 1: .}\nrate: 1e-6\nref: ${x}\npattern: <answer>(.*?)</answer>\n"
      "any: ^(.*)$\nnext:\n  ${custom_env.X}\ntext: |\n  Turn {t}:\n    in\n\nq: \"1\"\n");
  EXPECT_EQ(root.at_path("a")->kind, NodeKind::null);
  EXPECT_EQ(root.at_path("lookup.0")->scalar, "W");
  EXPECT_EQ(as_double(*root.at_path("rate")), 1e-6);
  EXPECT_EQ(root.at_path("ref")->scalar, "${x}");
  EXPECT_EQ(root.at_path("pattern")->scalar, "<answer>(.*?)</answer>");
  EXPECT_EQ(root.at_path("any")->scalar, "^(.*)$");
  EXPECT_EQ(root.at_path("next")->scalar, "${custom_env.X}");
  EXPECT_EQ(root.at_path("next")->mark.file_line_column(), "t.yaml:8:3");
  EXPECT_EQ(root.at_path("text")->scalar, "Turn {t}:\n  in\n");
  EXPECT_TRUE(root.at_path("q")->is_quoted);
  EXPECT_EQ(root.find("rate")->mark.file_line_column(), "t.yaml:3:1");
}

TEST(YamlReader, AnchorsMergeKeysAndTags) {
  EXPECT_EQ(to_yaml(parsed("a: &x {k: 1, l: [2]}\nb: *x\n")),
            "a:\n  k: 1\n  l: [2]\nb:\n  k: 1\n  l: [2]\n");
  EXPECT_EQ(to_yaml(parsed("a: &x {k: 1, m: 2}\nb:\n  <<: *x\n  k: 3\n")),
            "a:\n  k: 1\n  m: 2\nb:\n  k: 3\n  m: 2\n");
  EXPECT_EQ(to_yaml(parsed("b: {<<: [{k: 1}, {k: 2, l: 3}]}\n")), "b:\n  k: 1\n  l: 3\n");
  EXPECT_EQ(to_yaml(parsed("\"<<\": 1\n")), "\"<<\": 1\n");
  EXPECT_TRUE(parsed("a: !!str 12\n").at_path("a")->is_quoted);
  EXPECT_EQ(as_int(*parsed("a: !!int 12\n").at_path("a")), 12);
}

TEST(YamlReader, LineEndsMarksAndEmptyFiles) {
  EXPECT_EQ(to_yaml(parsed("\xEF\xBB\xBF"
                           "a: 1\r\nb:\r\n  - x\r\n")),
            "a: 1\nb: [x]\n");
  Node crlf = parsed("a: |\r\n  x\r\n  y\r\nb: 2\r\n");
  EXPECT_EQ(crlf.at_path("a")->scalar, "x\ny\n");
  EXPECT_EQ(crlf.find("b")->mark.line, 4);
  EXPECT_EQ(to_yaml(parsed("%YAML 1.1\n---\na: 1\n...\n")), "a: 1\n");
  for (const char* text : {"", "\n\n", "# nothing\n", "\xEF\xBB\xBF", "~\n", "---\n"}) {
    Node root = parsed(text);
    EXPECT_EQ(root.kind, NodeKind::null) << text;
    EXPECT_EQ(root.mark.line > 0, true) << text;
  }
}

TEST(YamlReader, RefusesWhatIsNoConfig) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a: 1\nb: 2\na: 3\n", "t.yaml:3:1: duplicate key 'a' (first at line 1)"},
      {"x:\n  a: 1\n  a: 3\n", "t.yaml:3:3: duplicate key 'a' (first at line 2)"},
      {"a: [1, 2\n", "t.yaml:2:1: not valid YAML: "},
      {"a: 1\n---\nb: 2\n", "t.yaml:2:1: more than one YAML document"},
      {"a: 1\n]\n", "t.yaml:2:1: not valid YAML: illegal flow end"},
      {"]", "t.yaml:1:1: "},
      {"a: *x\n", "t.yaml:1:4: not valid YAML: "},
      {"a: &x [*x]\n", "t.yaml:1:8: an alias inside of what it stands for"},
      {"? [1]\n: 2\n", "t.yaml:1:3: a key must be a text or a number"},
      {"~: 2\n", "t.yaml:1:1: a key must be a text or a number"},
      {"a: !!python/object:os.system x\n", "t.yaml:1:4: the tag 'tag:yaml.org,2002:python/object"},
      {"a: !x [1]\n", "t.yaml:1:4: the tag '!x' is not known here"},
      {"a: \"\\_\"\n", "t.yaml:1:4: the escapes '\\_' and '\\N' are not known here"},
      {std::string(300, 'k') + ": 1\n", "t.yaml:1:1: a key of 300 bytes; at most 200"},
      {"a: {<<: 3}\n", "t.yaml:1:5: '<<' merges maps, got '3'"},
      {"a:\n\tb: 1\n", "t.yaml:2:"},
      {std::string("a: \0b\n", 6), "t.yaml:1:4: a zero byte: not a text"},
      {"a: 1\nb: \x04\n", "t.yaml:2:4: a control byte (0x04)"},
      {"a: 1\nb: \xC3(\n", "t.yaml:2:4: not UTF-8 (byte 0xC3)"},
      {"a: \xED\xA0\x80\n", "t.yaml:1:4: not UTF-8 (byte 0xED)"},
      {"a: \xC0\xAF\n", "t.yaml:1:4: not UTF-8 (byte 0xC0)"},
      {std::string("\xFF\xFE"
                   "a\0",
                   4),
       "t.yaml:1:1: UTF-16; save it as UTF-8"},
  };
  for (const auto& [text, message] : cases)
    EXPECT_EQ(yaml_fault(text).substr(0, message.size()), message) << text << yaml_fault(text);
  EXPECT_NE(yaml_fault("a:\n  b: 1\n\tc: 2\n").find("indent with spaces"), std::string::npos)
      << yaml_fault("a:\n  b: 1\n\tc: 2\n");
}

/// Twelve levels, each of which names the one below it ten times.
std::string laughs(const std::string& leaf) {
  std::string text = "a0: &a0 " + leaf + "\n";
  for (int i = 1; i < 12; ++i) {
    std::string alias = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + alias;
    for (int j = 1; j < 10; ++j) text += ", " + alias;
    text += "]\n";
  }
  return text;
}

TEST(YamlReader, BoundsWhatAliasesMultiply) {
  EXPECT_NE(yaml_fault(laughs("[x, x, x]")).find("more than 20000 nodes"), std::string::npos);
  EXPECT_NE(yaml_fault(laughs(std::string(100'000, 'x'))).find("texts of more than 4194304 bytes"),
            std::string::npos);
  std::string deep = "a0: &a0 [x]\n";
  for (int i = 1; i < 90; ++i)
    deep += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) +
            "]\n";
  EXPECT_NE(yaml_fault(deep).find("nested deeper than 64 levels"), std::string::npos);
}

TEST(YamlReader, BoundsSizeAndDepth) {
  EXPECT_EQ(yaml_fault("a: " + std::string(10'000'000, 'x')),
            "t.yaml:1:1: 10000003 bytes; a config has at most 1048576");
  EXPECT_NE(yaml_fault(std::string(5000, '[')).find("brackets nest too deep"), std::string::npos);
  for (const char* piece : {"[", "{a: ", "- ", "? ", "a: {b: [", "- a: "}) {
    std::string text;
    for (int i = 0; i < 200; ++i) text += piece;
    EXPECT_EQ(yaml_fault(text).find("t.yaml:"), 0u) << piece;
  }
  std::string many;
  for (int i = 0; i < 25'000; ++i) many += "k" + std::to_string(i) + ": 1\n";
  EXPECT_NE(yaml_fault(many).find("more than 20000 nodes"), std::string::npos);
}

TEST(YamlReader, FilesThatAreTooLargeOrNone) {
  test::ConfigFolder folder;
  folder.write("big.yaml", "a: " + std::string(10'000'000, 'x'));
  EXPECT_EQ(read_yaml(folder.path("big.yaml")).error().detail,
            folder.path("big.yaml") + ":1:1: 10000003 bytes; a config has at most 1048576");
  EXPECT_EQ(read_yaml(folder.path("none")).error().code, Errc::not_found);
  EXPECT_EQ(read_yaml(folder.path()).error().code, Errc::io);
}

TEST(Text, ShowsOneLineOfWholeCharacters) {
  EXPECT_EQ(shown_text("a\nb\x01"
                       "c"),
            "a b c");
  EXPECT_EQ(shown_text("√√√", 7), "√√…");
  EXPECT_EQ(shown_text("a\xFF"), "a?");
  EXPECT_FALSE(find_bad_byte("a√\t\r\n𝄞"));
  EXPECT_EQ(find_bad_byte("ab\x7F")->offset, 2u);
  EXPECT_EQ(find_bad_byte("\xF0\x9D\x84")->offset, 0u);
}

}  // namespace
}  // namespace cohort::config::config_yaml_test
