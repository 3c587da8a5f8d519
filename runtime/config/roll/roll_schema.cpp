#include "runtime/config/roll/roll_schema.hpp"

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
