#pragma once
/// ROLL's schema as a table, and between tree and RunConfig.
#include <set>
#include <vector>

#include "runtime/config/bind/binder.hpp"
#include "runtime/config/bind/schema.hpp"
#include "runtime/config/run_config.hpp"

namespace cohort::config {

/// All keys in the order of the schema.
const std::vector<KeyInfo>& all_keys();

/// Binds `root` (interpolated) to `config`. `definitions`: top-level keys that some `${…}` names;
/// they need not be in the schema. The whole tree's mark goes to findings.present[""].
void bind_tree(const Node& root, const std::set<std::string>& definitions, RunConfig& config,
               Findings& findings);

/// Every key of `config` with its value, as a tree: what resolved_yaml is made of.
Node to_node(const RunConfig& config);

}  // namespace cohort::config
