#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "runtime/config/roll/roll_schema.hpp"
#include "tests/support/config_text.hpp"

namespace cohort::config {
namespace {

constexpr std::string_view k_begin = "<!-- schema: begin (COHORT_UPDATE_GOLDEN=1 rewrites) -->\n";
constexpr std::string_view k_end = "<!-- schema: end -->\n";

// docs/config.md holds the schema's tables; COHORT_UPDATE_GOLDEN=1 rewrites them.
TEST(ConfigDocs, TablesAreTheSchemas) {
  std::string path = test::source_path("docs/config.md");
  std::ostringstream stream;
  stream << std::ifstream(path).rdbuf();
  std::string text = stream.str();
  size_t begin = text.find(k_begin);
  size_t end = text.find(k_end);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  begin += k_begin.size();
  if (std::getenv("COHORT_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text.substr(0, begin) << schema_markdown() << text.substr(end);
    return;
  }
  EXPECT_TRUE(text.substr(begin, end - begin) == schema_markdown())
      << "docs/config.md is not the schema's; run this test with COHORT_UPDATE_GOLDEN=1";
}

TEST(ConfigDocs, EveryKeyIsListedOnceAndExplained) {
  std::set<std::string> paths;
  for (const KeyInfo& key : all_keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    EXPECT_FALSE(key.doc.empty()) << key.path;
    EXPECT_FALSE(key.reader.empty()) << key.path;
  }
  EXPECT_GT(paths.size(), 150u);
}

}  // namespace
}  // namespace cohort::config
