#include "runtime/config/verl/verl_bind.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/suggest.hpp"
#include "runtime/config/verl/verl_load.hpp"

namespace cohort::config {

void bind_verl(const Node& root, const std::set<std::string>& definitions, VerlConfig& config,
               Findings& findings) {
  BindOptions options;
  options.definitions = &definitions;
  options.is_layered = true;
  options.class_key = "_target_";
  options.class_reason = "names a Python class of verl";
  options.advice = [](const std::string& section, const std::vector<std::string>&,
                      const std::string& key) { return verl_advice(section, key); };
  bind_keys([&config](Visitor& visitor) { describe_verl(visitor, config); }, root, options,
            findings);
}

Node verl_to_node(const VerlConfig& config) {
  VerlConfig copy = config;  // the visitors share one interface, with mutable members
  return write_tree([&copy](Visitor& visitor) { describe_verl(visitor, copy); });
}

const std::vector<KeyInfo>& verl_keys() {
  static const std::vector<KeyInfo> k_keys = list_keys([](Visitor& visitor) {
    VerlConfig defaults;
    describe_verl(visitor, defaults);
  });
  return k_keys;
}

bool is_verl_key(const std::string& path) {
  return std::any_of(verl_keys().begin(), verl_keys().end(), [&](const KeyInfo& key) {
    bool is_open = !key.has_effect || key.type == "section of any keys";
    return key.path == path || (is_open && path.starts_with(key.path + "."));
  });
}

std::string verl_advice(const std::string& section, const std::string& key) {
  std::vector<std::string> siblings;
  for (const KeyInfo& info : verl_keys()) {
    size_t dot = info.path.rfind('.');
    std::string parent = dot == std::string::npos ? "" : info.path.substr(0, dot);
    if (parent == section)
      siblings.push_back(dot == std::string::npos ? info.path : info.path.substr(dot + 1));
  }
  if (std::string near = nearest_name(key, siblings); !near.empty())
    return fmt::format("; did you mean '{}'?", join_path(section, near));
  return full_name_of(verl_keys(), key);
}

}  // namespace cohort::config
