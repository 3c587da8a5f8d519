#include "runtime/config/roll/roll_schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "runtime/base/suggest.hpp"
#include "runtime/config/roll/describe.hpp"

namespace cohort::config {

const std::vector<KeyInfo>& all_keys() {
  static const std::vector<KeyInfo> k_keys = list_keys([](Visitor& visitor) {
    RunConfig defaults;
    describe(visitor, defaults);
  });
  return k_keys;
}

namespace {

bool is_environments(const Node& node) {
  return node.kind == NodeKind::map && !node.entries.empty() &&
         std::ranges::all_of(node.entries, [](const Entry& each) {
           return each.node().kind == NodeKind::map && each.node().find("env_type") != nullptr;
         });
}

/// What a file holds for `${...}` without a name of ROLL's: keys of a fragment, templates of
/// environments, and constants in capitals. A name near a known one is a mistake all the same.
std::string definition_reason(const Node& root, const Entry& entry,
                              const std::vector<std::string>& known) {
  const bool is_constant = std::isupper(static_cast<unsigned char>(entry.key.front())) != 0;
  const bool is_fragment = entry.mark.line > 0 && entry.mark.source != root.mark.source;
  if (!is_constant && !is_fragment && !is_environments(entry.node())) return "";
  if (!is_constant && !did_you_mean(entry.key, known).empty()) return "";
  return "a definition for ${...}, and nothing in this config names it";
}

/// ROLL's `teacher` may be a map of teachers by name.
bool is_teacher(const Node& root, const std::string& section, const std::string& key) {
  const Node* node = section == "teacher" ? root.at_path(join_path(section, key)) : nullptr;
  return node != nullptr && node->kind == NodeKind::map && node->find("model_args") != nullptr;
}

}  // namespace

void bind_tree(const Node& root, const std::set<std::string>& definitions, RunConfig& config,
               Findings& findings) {
  BindOptions options;
  options.definitions = &definitions;
  options.definition = definition_reason;
  options.advice = [&root](const std::string& section, const std::vector<std::string>& known,
                           const std::string& key) -> std::string {
    if (is_teacher(root, section, key)) return fmt::format("; {}", k_several_teachers);
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
