// The catalogue: names by dialect, what is built, and tables of docs that are made of it.
#include "runtime/catalog/catalog.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace cohort::catalog {
namespace {

const std::vector<std::span<const Entry>> k_tables = {
    entries(AdvEstimator{}), entries(PolicyLossKind{}), entries(LossAgg{}), entries(KlKind{}),
    entries(NormMethod{}),   entries(GroupFilter{}),    entries(EnvType{}), entries(RewardType{})};

TEST(Catalog, NamesAreUniqueInADialectAndRowsAreExplained) {
  for (const auto& table : k_tables)
    for (Dialect dialect : {Dialect::roll, Dialect::verl}) {
      std::set<std::string_view> seen;
      for (const Name& name : names(table, dialect))
        EXPECT_TRUE(seen.insert(name.text).second) << name.text;
    }
  for (const auto& table : k_tables)
    for (const Entry& row : table) {
      EXPECT_TRUE(row.help.ends_with('.')) << row.id;
      EXPECT_FALSE(row.name().empty()) << row.id;
    }
}

TEST(Catalog, ADialectHasItsOwnNames) {
  EXPECT_EQ(find<PolicyLossKind>("vanilla"), PolicyLossKind::vanilla) << "ROLL: -lp A";
  EXPECT_EQ(find<PolicyLossKind>("vanilla", Dialect::verl), PolicyLossKind::ppo);
  EXPECT_EQ(find<KlKind>("low_var_kl", Dialect::verl), KlKind::k3);
  EXPECT_FALSE(find<KlKind>("low_var_kl"));
  EXPECT_EQ(find<AdvEstimator>("rloo_vectorized", Dialect::verl), AdvEstimator::rloo_vectorized);
  EXPECT_FALSE(find<AdvEstimator>("dr_grpo", Dialect::verl));
  EXPECT_EQ(find<LossAgg>("token-mean"), LossAgg::token_mean);
  EXPECT_EQ(to_string(PolicyLossKind::gspo), "gspo");
}

TEST(Catalog, SaysWhatIsBuiltAndWhatItNeeds) {
  EXPECT_EQ(built_names(entries(EnvType{})),
            "frozen_lake, sokoban, roll_math, roll_code, roll_qa, game:, plugin, webshop");
  EXPECT_TRUE(entry(AdvEstimator::gae).has(need::critic));
  EXPECT_TRUE(entry(AdvEstimator::dr_grpo).has(need::groups | need::constant_length));
  EXPECT_FALSE(entry(AdvEstimator::grpo).has(need::own_baseline));
  EXPECT_EQ(needs_text(need::critic | need::groups), "a critic, groups");
  EXPECT_EQ(needs_text(need::own_baseline), "");
}

std::string source_path(const std::string& path) {
  const char* root = std::getenv("COHORT_SOURCE_DIR");
  return std::string(root == nullptr ? "." : root) + "/" + path;
}

std::string markdown(std::span<const Entry> rows) {
  std::string text = "| name | verl's names | needs | runs | |\n|---|---|---|---|---|\n";
  for (const Entry& row : rows) {
    std::string verl;
    for (std::string_view name : words(row.verl))
      verl += (verl.empty() ? "`" : ", `") + std::string(name) + "`";
    text += "| `" + std::string(row.name()) + "` | " + verl + " | " + needs_text(row.needs) +
            " | " + (row.is_built ? "yes" : "no") + " | " + std::string(row.help) + " |\n";
  }
  return text;
}

// A table stands between <!-- catalog: NAME --> and <!-- catalog: end -->; COHORT_UPDATE_GOLDEN=1
// rewrites it.
void expect_table(const std::string& doc, const std::string& name, std::span<const Entry> rows) {
  const std::string path = source_path(doc);
  std::ostringstream stream;
  stream << std::ifstream(path).rdbuf();
  const std::string text = stream.str();
  const std::string mark = "<!-- catalog: " + name + " -->\n";
  const size_t found = text.find(mark);
  ASSERT_NE(found, std::string::npos) << doc << " has no " << mark;
  const size_t begin = found + mark.size();
  const size_t end = text.find("<!-- catalog: end -->", begin);
  ASSERT_NE(end, std::string::npos) << doc;
  if (std::getenv("COHORT_UPDATE_GOLDEN") != nullptr)
    std::ofstream(path) << text.substr(0, begin) << markdown(rows) << text.substr(end);
  else
    EXPECT_EQ(text.substr(begin, end - begin), markdown(rows)) << doc << ": " << name;
}

TEST(CatalogDocs, TablesAreTheCatalogs) {
  expect_table("docs/algorithms.md", "advantage estimators", entries(AdvEstimator{}));
  expect_table("docs/algorithms.md", "policy losses", entries(PolicyLossKind{}));
  expect_table("docs/algorithms.md", "loss aggregations", entries(LossAgg{}));
  expect_table("docs/algorithms.md", "KL estimators", entries(KlKind{}));
  expect_table("docs/algorithms.md", "reward normalisation", entries(NormMethod{}));
  expect_table("docs/algorithms.md", "group filters", entries(GroupFilter{}));
  expect_table("docs/environments.md", "environments", entries(EnvType{}));
  expect_table("docs/rewards.md", "rewards", entries(RewardType{}));
}

}  // namespace
}  // namespace cohort::catalog
