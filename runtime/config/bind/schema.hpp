#pragma once
/// A schema as a table, one row per accepted key; a config as a tree; and finding a key by what a
/// user types: what `plan --explain KEY` stands on. Pure. Both dialects use it.
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/config/bind/visitor.hpp"
#include "runtime/config/tree/yaml_node.hpp"

namespace cohort::config {

/// Walks every key of a config.
using Schema = std::function<void(Visitor&)>;

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

/// All keys in the order of the schema; a path that comes twice is listed once.
std::vector<KeyInfo> list_keys(const Schema& schema);

/// Every key of the config that `schema` walks, with its value. Marks have no source.
Node write_tree(const Schema& schema);

/// What a config's resolved_yaml is: `tree`, and its keys without effect as comments.
std::string resolved_text(const Node& tree, const std::vector<Note>& notes);

/// `path`: a whole path (names of the user's choice as they are in the file, or as <name>), or its
/// end, if only one key ends so: "learning_rate", "num_env_groups". Returns Errc::config with the
/// keys that end so when there are several, Errc::not_found with the nearest ones when there is
/// none. The pointer is into `keys`: all_keys() or verl_keys().
Expected<const KeyInfo*> find_key(const std::vector<KeyInfo>& keys, std::string_view path);

}  // namespace cohort::config
