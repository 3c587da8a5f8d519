#include "tools/actor-node/plan_explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runtime/config/bind/schema.hpp"
#include "runtime/config/roll/roll_schema.hpp"
#include "runtime/config/tree/yaml_reader.hpp"
#include "runtime/config/verl/verl_load.hpp"
#include "runtime/config/verl/verl_sft.hpp"

namespace cohort {
namespace {

using config::KeyInfo;

std::string one_line(const config::Node& node) {
  if (node.kind == config::NodeKind::scalar || node.kind == config::NodeKind::null)
    return node.kind == config::NodeKind::null ? "~" : node.scalar;
  std::string text;
  for (char c : config::to_yaml(node)) text += c == '\n' ? ' ' : c;
  return text;
}

/// The value after load, and who set it. The resolved text has the keys of the config's dialect.
void add_value(Page& page, const std::string& key, const config::RunConfig& c) {
  auto row = [&](std::string_view name, const std::string& text) {
    page.wrapped(fmt::format("  {:<9}", name), text);
  };
  auto tree = config::parse_yaml(c.resolved_yaml, "resolved");
  const config::Node* node = tree ? tree->at_path(key) : nullptr;
  auto origin = c.origins.find(key);
  if (node != nullptr && node->kind != config::NodeKind::map)
    row("here", fmt::format("{} ({})", one_line(*node),
                            origin == c.origins.end() ? "not in the config: default or derived"
                                                      : origin->second));
  else if (origin != c.origins.end())
    row("here", "set at " + origin->second);
  else
    row("here", "not in the config");
  for (const config::Note& note : c.notes)
    if (note.key == key) row("note", "no effect: " + note.text);
  for (const config::Note& warning : c.warnings)
    if (warning.key == key) row("warning", warning.text);
}

void add_children(Page& page, const KeyInfo& section, const std::vector<KeyInfo>& keys) {
  std::vector<Row> rows;
  for (const KeyInfo& x : keys) {
    if (!x.path.starts_with(section.path + ".")) continue;
    std::string rest = x.path.substr(section.path.size() + 1);
    if (rest.find('.') != std::string::npos) continue;
    rows.push_back({{rest, x.is_section ? "section" : x.default_text, x.doc},
                    x.has_effect ? Tone::plain : Tone::faint});
  }
  if (!rows.empty()) page.table(2, {{}, {false, 24}, {}}, rows);
}

/// The rows of the catalogue that the dialect has names for.
void add_names(Page& page, const KeyInfo& info, config::Dialect dialect) {
  std::vector<Row> rows;
  for (const catalog::Entry& entry : info.rows) {
    const std::string_view names = dialect == config::Dialect::verl ? entry.verl : entry.roll;
    if (names.empty()) continue;
    const std::string needs = catalog::needs_text(entry.needs);
    rows.push_back({{std::string(names.substr(0, names.find(' '))), std::string(entry.help),
                     needs.empty() ? "" : "needs " + needs, entry.is_built ? "" : "not run"},
                    entry.is_built ? Tone::plain : Tone::faint});
  }
  if (!rows.empty()) page.table(2, {{}, {}, {}, {}}, rows);
}

struct Found {
  const KeyInfo* info;
  const std::vector<KeyInfo>* keys;  // that it stands among
};

/// Whether `key` is the key's whole path, not its end.
bool is_whole(const std::string& key, const KeyInfo& info) {
  return config::split_path(key).size() == config::split_path(info.path).size();
}

/// verl has two trainers with keys of their own; the one that `config` is of is asked first. A
/// whole path wins over an end.
Expected<Found> find_in_dialect(const std::string& key, config::Dialect dialect,
                                const config::RunConfig* config) {
  std::vector<const std::vector<KeyInfo>*> lists = {&config::all_keys()};
  if (dialect == config::Dialect::verl) {
    lists = {&config::verl_keys(), &config::verl_sft_keys()};
    if (config != nullptr && config->pipeline == config::Pipeline::sft) std::ranges::reverse(lists);
  }
  std::optional<Found> ending;
  std::optional<Error> error;
  for (const std::vector<KeyInfo>* keys : lists) {
    auto found = config::find_key(*keys, key);
    if (found && is_whole(key, **found)) return Found{*found, keys};
    if (found && !ending) ending = Found{*found, keys};
    if (!found && !ending && !error) error = found.error();
  }
  if (ending && (!error || error->code == Errc::not_found)) return *ending;
  return error->with_context(fmt::format("{} dialect", config::to_string(dialect)));
}

}  // namespace

Expected<std::string> explain_key(const std::string& key, config::Dialect dialect,
                                  const config::RunConfig* config, const PageStyle& style) {
  COHORT_ASSIGN(const Found found, find_in_dialect(key, dialect, config));
  const KeyInfo* info = found.info;
  Page page(style);
  // A whole path keeps the names of the file; an ending is shown as the key that it stands for.
  const std::string path = is_whole(key, *info) ? key : info->path;
  page.heading(path);
  auto row = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) page.wrapped(fmt::format("  {:<9}", name), text);
  };
  row(info->has_effect ? "does" : "nothing", info->doc);
  row("type", info->is_section ? "section" : info->type);
  row("default", info->default_text);
  row("read by", info->reader);
  if (found.keys == &config::verl_sft_keys()) row("trainer", "verl's supervised one");
  if (config != nullptr) add_value(page, path, *config);
  add_names(page, *info, dialect);
  if (info->is_section) add_children(page, *info, *found.keys);
  return page.text();
}

}  // namespace cohort
