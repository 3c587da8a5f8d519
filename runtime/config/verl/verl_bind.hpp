#pragma once
/// Tree <-> VerlConfig through describe_verl(). A key of the tree without a source in its mark is a
/// default laid under the user's keys: interpolation sees it, the binder does not.
#include <set>
#include <string>

#include "runtime/config/bind/binder.hpp"
#include "runtime/config/tree/yaml_node.hpp"
#include "runtime/config/verl/verl_config.hpp"

namespace cohort::config {

/// Binds the user's part of `root` (interpolated). `definitions`: top-level keys that some `${…}`
/// names. Keys without effect become notes, unknown ones problems with the nearest name.
void bind_verl(const Node& root, const std::set<std::string>& definitions, VerlConfig& config,
               Findings& findings);

/// Every key of `config` with its value. Marks have no source.
Node verl_to_node(const VerlConfig& config);

/// Whether the dialect has this key: one of the schema, or one inside a section of free content.
bool is_verl_key(const std::string& path);

/// Returns "; did you mean '<full path>'?" for a key that section `section` has not, or "".
std::string verl_advice(const std::string& section, const std::string& key);

}  // namespace cohort::config
