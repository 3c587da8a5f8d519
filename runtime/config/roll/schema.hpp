#pragma once
/// The schema as a table: one row per accepted key. Built from describe(); docs/config.md holds its
/// text.
#include <span>
#include <string>
#include <vector>

#include "runtime/config/run_config.hpp"
#include "runtime/config/tree/yaml_node.hpp"

namespace cohort::config {

struct KeyInfo {
  std::string
      path;  // "actor_train.training_args.learning_rate"; names of the user's choice are <name>
  std::string type;          // "number above 0"
  std::string default_text;  // YAML of the default
  std::string doc;           // what it does, or why it does nothing
  std::string reader;        // who uses it
  bool has_effect = true;
  bool is_section = false;
  std::span<const catalog::Entry> rows = {};  // of the catalogue that its names come from
};

/// All keys in the order of the schema.
const std::vector<KeyInfo>& all_keys();

/// The tables of docs/config.md.
std::string schema_markdown();

/// Every key of `config` with its value, as a tree: what resolved_yaml is made of.
Node to_node(const RunConfig& config);

}  // namespace cohort::config
