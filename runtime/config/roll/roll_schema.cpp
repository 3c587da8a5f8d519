#include "runtime/config/roll/roll_schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "runtime/base/suggest.hpp"
#include "runtime/config/roll/describe.hpp"

namespace cohort::config {
namespace {

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

}  // namespace

const std::vector<KeyInfo>& all_keys() {
  static const std::vector<KeyInfo> k_keys = list_keys([](Visitor& visitor) {
    RunConfig defaults;
    describe(visitor, defaults);
  });
  return k_keys;
}

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
      "listed with "
      "its reason when the run starts.\n\n| keys | reason |\n|---|---|\n";
  for (const auto& [reason, names] : inert_reasons())
    out += fmt::format("| {} | {} |\n", names, cell(reason));
  return out;
}

void bind_tree(const Node& root, const std::set<std::string>& definitions, RunConfig& config,
               Findings& findings) {
  BindOptions options;
  options.definitions = &definitions;
  options.advice = [](const std::string&, const std::vector<std::string>& known,
                      const std::string& key) -> std::string {
    if (std::string near = did_you_mean(key, known); !near.empty()) return near;
    return full_name_of(all_keys(), key);
  };
  bind_keys([&config](Visitor& visitor) { describe(visitor, config); }, root, options, findings);
}

Node to_node(const RunConfig& config) {
  RunConfig copy = config;  // the visitors share one interface, with mutable members
  return write_tree([&copy](Visitor& visitor) { describe(visitor, copy); });
}

}  // namespace cohort::config
