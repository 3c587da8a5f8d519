#include <gtest/gtest.h>

#include "runtime/base/suggest.hpp"
#include "runtime/config/tree/device_mapping.hpp"
#include "tests/support/config_tree.hpp"

namespace cohort::config::config_parts_test {
namespace {

using Ids = std::vector<uint32_t>;

TEST(DeviceMapping, ReadsEveryForm) {
  const std::vector<std::pair<std::string, Ids>> cases = {
      {"list(range(0,4))", {0, 1, 2, 3}},
      {"list(range(2))", {0, 1}},
      {"list(range(0,8,3))", {0, 3, 6}},
      {"list(range(3, 0, -1))", {3, 2, 1}},
      {"list(range(0,2)) + list(range(8,10))", {0, 1, 8, 9}},
      {"list(range(0,4,2)) + [7] + (list([1]) + (range(3,2,-1)))", {0, 2, 7, 1, 3}},
      {"list(range(4,4))", {}},
      {"list(range(0,\n 2))", {0, 1}},
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
      {"list(range(0,4)", "expected '+' or ')' at character 16, found the end"},
      {"list(range())", "expected 1 to 3 numbers in range(...) at character 6"},
      {"range(1,2,3,4)", "expected 1 to 3 numbers in range(...) at character 1"},
      {"list(range(0,4,0))", "expected a step other than 0 at character 16, found '0))'"},
      {"list(range(0,2)) + [1]",
       "expected each card once (card id 1 is listed twice, first at character 6) at character 21"},
      {"[0, -1]", "expected card ids in 0..65535 (this gives -1) at character 5"},
      {"range(-1,1)", "expected card ids in 0..65535 (this gives -1) at character 1"},
      {"[0 1]", "expected ',' or ']' at character 4, found '1]'"},
      {"[0, 1.5]", "expected ',' or ']' at character 6, found '.5]'"},
      {"__import__('os')", "expected list(...), range(...) or [...] at character 1"},
      {"[0] * 4", "expected '+' or the end at character 5, found '* 4'"},
      {"list(range(0,99999999999))", "expected a number in 0..65535 at character 14"},
      {"list(range(0,60000))", "expected at most 4096 cards at character 6"},
      {"[0] + range(1,5000)", "expected at most 4096 cards at character 7"},
      {"", "found the end"},
      {"\xFF", "at character 1, found '?'"},
      {std::string(40, '('), "expected fewer parentheses at character 18"},
  };
  for (const auto& [text, message] : cases) {
    auto result = parse_device_mapping(text);
    ASSERT_FALSE(result) << text;
    EXPECT_NE(result.error().detail.find(message), std::string::npos) << result.error().detail;
  }
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
  Node again = test::parsed(to_yaml(root));
  for (size_t i = 0; i < texts.size(); ++i) {
    const Entry* entry = again.find("k" + std::to_string(i));
    ASSERT_NE(entry, nullptr) << i;
    EXPECT_EQ(entry->node().scalar, texts[i]) << i;
    EXPECT_EQ(entry->node().kind, NodeKind::scalar) << i;
  }
}

}  // namespace
}  // namespace cohort::config::config_parts_test
