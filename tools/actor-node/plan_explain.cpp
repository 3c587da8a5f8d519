#include "tools/actor-node/plan_explain.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/config/schema.hpp"
#include "runtime/config/suggest.hpp"
#include "runtime/config/verl_load.hpp"
#include "runtime/config/yaml_reader.hpp"

namespace cohort {
namespace {

using config::KeyInfo;

/// Whether `key` is `path`, in which "<name>" stands for any one name.
bool matches(const std::string& key, const std::string& path) {
  auto words = config::split_path(key), pattern = config::split_path(path);
  return std::ranges::equal(words, pattern, [](const std::string& word, const std::string& x) {
    return word == x || (x.starts_with('<') && x.ends_with('>'));
  });
}

const KeyInfo* find_key(const std::string& key, const std::vector<KeyInfo>& keys) {
  auto at = std::ranges::find(keys, key, &KeyInfo::path);
  if (at == keys.end())
    at = std::ranges::find_if(keys, [&](const KeyInfo& x) { return matches(key, x.path); });
  return at == keys.end() ? nullptr : &*at;
}

/// Up to five keys: those that end alike first, then by spelling.
std::vector<std::string> nearest_keys(const std::string& key, const std::vector<KeyInfo>& keys) {
  constexpr size_t k_count_max = 5;
  std::string last = config::split_path(key).empty() ? key : config::split_path(key).back();
  std::vector<std::pair<size_t, std::string>> scored;
  for (const KeyInfo& x : keys) {
    std::string name = config::split_path(x.path).back();
    size_t of_name = config::edit_distance(last, name);
    if (of_name > std::max<size_t>(1, last.size() / 3) && x.path.find(key) == std::string::npos)
      continue;
    scored.push_back({of_name * 8 + config::edit_distance(key, x.path), x.path});
  }
  std::ranges::stable_sort(scored, {}, &std::pair<size_t, std::string>::first);
  std::vector<std::string> out;
  for (const auto& [score, path] : scored)
    if (out.size() < k_count_max) out.push_back(path);
  return out;
}

std::string one_line(const config::Node& node) {
  if (node.kind == config::NodeKind::scalar || node.kind == config::NodeKind::null)
    return node.kind == config::NodeKind::null ? "~" : node.scalar;
  std::string text;
  for (char c : config::to_yaml(node)) text += c == '\n' ? ' ' : c;
  return text;
}

/// The value after load, and who set it.
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

}  // namespace

Expected<std::string> explain_key(const std::string& key, config::Dialect dialect,
                                  const config::RunConfig* config, const PageStyle& style) {
  bool is_verl = dialect == config::Dialect::verl;
  const std::vector<KeyInfo>& keys = is_verl ? config::verl_keys() : config::all_keys();
  const KeyInfo* info = find_key(key, keys);
  if (info == nullptr) {
    std::string list;
    for (const std::string& path : nearest_keys(key, keys)) list += "\n  " + path;
    return Error{Errc::not_found,
                 fmt::format("no key '{}' in the {} dialect{}{}", key, config::to_string(dialect),
                             list.empty() ? "" : "; nearest:", list)};
  }
  Page page(style);
  page.heading(key);
  auto row = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) page.wrapped(fmt::format("  {:<9}", name), text);
  };
  row(info->has_effect ? "does" : "nothing", info->doc);
  row("type", info->is_section ? "section" : info->type);
  row("default", info->default_text);
  row("read by", info->reader);
  if (config != nullptr) add_value(page, key, *config);
  if (info->is_section) add_children(page, *info, keys);
  return page.text();
}

}  // namespace cohort
