#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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

std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

/// Sections with the same keys; `<role>` in the table is each of the first eight.
constexpr std::array<std::string_view, 11> k_twins = {
    "actor_train",    "actor_infer",       "reference",      "critic",
    "reward_model",   "sft_train",         "student",        "teacher",
    "rewards.<name>", "train_env_manager", "val_env_manager"};
constexpr size_t k_role_count = 8;

/// A row of the table: the same key of several twins is one row.
struct Row {
  const KeyInfo* key;
  std::string path;  // without the twin's name
  std::vector<std::string_view> twins;

  std::string where() const {
    if (twins.size() <= 1) return twins.empty() ? "" : std::string(twins.front());
    bool has_roles = twins.size() >= k_role_count && twins[k_role_count - 1] == "teacher";
    std::vector<std::string_view> names(twins.begin() + (has_roles ? k_role_count : 0),
                                        twins.end());
    if (has_roles) names.insert(names.begin(), "<role>");
    return names.size() == 1 ? std::string(names.front())
                             : fmt::format("{{{}}}", fmt::join(names, ", "));
  }
  std::string text() const { return join_path(where(), path); }
};

bool is_same_row(const Row& row, const KeyInfo& key, std::string_view path) {
  return !row.twins.empty() && row.path == path && row.key->type == key.type &&
         row.key->default_text == key.default_text && row.key->doc == key.doc;
}

std::vector<Row> rows_of(bool has_effect) {
  std::vector<Row> rows;
  for (const KeyInfo& key : all_keys()) {
    if (key.has_effect != has_effect) continue;
    auto role = std::find_if(k_twins.begin(), k_twins.end(), [&](std::string_view name) {
      return key.path.size() > name.size() && key.path.starts_with(name) &&
             key.path[name.size()] == '.';
    });
    if (role == k_twins.end()) {
      rows.push_back({&key, key.path, {}});
      continue;
    }
    std::string path = key.path.substr(role->size() + 1);
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const Row& x) { return is_same_row(x, key, path); });
    if (row == rows.end())
      rows.push_back({&key, path, {*role}});
    else
      row->twins.push_back(*role);
  }
  return rows;
}

/// Keys without effect by reason; those of one section as `section.{a, b}`.
std::vector<std::pair<std::string, std::string>> inert_reasons() {
  struct Group {
    std::string reason;
    std::string section;
    std::vector<std::string> names;
  };
  std::vector<Group> groups;
  for (const Row& row : rows_of(false)) {
    std::string path = row.text();
    size_t dot = path.rfind('.');
    std::string section = dot == std::string::npos ? "" : path.substr(0, dot);
    std::string name = dot == std::string::npos ? path : path.substr(dot + 1);
    auto known = std::find_if(groups.begin(), groups.end(), [&](const Group& x) {
      return x.reason == row.key->doc && x.section == section;
    });
    if (known == groups.end()) known = groups.insert(groups.end(), {row.key->doc, section, {}});
    known->names.push_back(name);
  }
  std::vector<std::pair<std::string, std::string>> reasons;
  for (const Group& x : groups) {
    bool is_one = x.names.size() == 1 || x.section.empty();
    std::string names = fmt::format("{}", fmt::join(x.names, ", "));
    if (!is_one) names = "{" + names + "}";
    std::string text = fmt::format("`{}`", join_path(x.section, names));
    auto known = std::find_if(reasons.begin(), reasons.end(),
                              [&](const auto& reason) { return reason.first == x.reason; });
    if (known == reasons.end())
      reasons.emplace_back(x.reason, text);
    else
      known->second += ", " + text;
  }
  return reasons;
}

/// The tables of docs/config.md.
std::string schema_markdown() {
  std::string out = fmt::format(
      "`<role>` is each of {}.\n\n### Keys with an effect\n\n| key | type | default | what it "
      "does | read by |\n|---|---|---|---|---|\n",
      fmt::join(k_twins.begin(), k_twins.begin() + k_role_count, ", "));
  for (const Row& row : rows_of(true)) {
    const KeyInfo& key = *row.key;
    std::string text = key.default_text.empty() ? "" : fmt::format("`{}`", cell(key.default_text));
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", row.text(), cell(key.type), text,
                       cell(key.doc), key.reader);
  }
  out +=
      "\n### Keys that ROLL knows and that have no effect here\n\nEach one that is in a config is "
      "listed with its reason when the run starts.\n\n| keys | reason |\n|---|---|\n";
  for (const auto& [reason, names] : inert_reasons())
    out += fmt::format("| {} | {} |\n", names, cell(reason));
  return out;
}

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
