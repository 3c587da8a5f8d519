#include "tools/actor-node/plan_explain.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/config/bind/schema.hpp"
#include "runtime/config/roll/roll_schema.hpp"
#include "runtime/config/tree/yaml_reader.hpp"
#include "runtime/config/verl/verl_load.hpp"

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

}  // namespace

Expected<std::string> explain_key(const std::string& key, config::Dialect dialect,
                                  const config::RunConfig* config, const PageStyle& style) {
  bool is_verl = dialect == config::Dialect::verl;
  const std::vector<KeyInfo>& keys = is_verl ? config::verl_keys() : config::all_keys();
  auto found = config::find_key(keys, key);
  if (!found)
    return found.error().with_context(fmt::format("{} dialect", config::to_string(dialect)));
  const KeyInfo* info = *found;
  Page page(style);
  // A whole path keeps the names of the file; an ending is shown as the key that it stands for.
  bool is_whole = config::split_path(key).size() == config::split_path(info->path).size();
  const std::string path = is_whole ? key : info->path;
  page.heading(path);
  auto row = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) page.wrapped(fmt::format("  {:<9}", name), text);
  };
  row(info->has_effect ? "does" : "nothing", info->doc);
  row("type", info->is_section ? "section" : info->type);
  row("default", info->default_text);
  row("read by", info->reader);
  if (config != nullptr) add_value(page, path, *config);
  add_names(page, *info, dialect);
  if (info->is_section) add_children(page, *info, keys);
  return page.text();
}

}  // namespace cohort
