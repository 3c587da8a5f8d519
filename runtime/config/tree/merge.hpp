#pragma once
/// Deep merge with OmegaConf's rules beyond merge(): a map laid on a reference "${a}" is laid on a
/// copy of the map that it names; `???` (to be given) does not replace a value. Pure.
/// Bound: k_max_nodes values copied in the life of a Merger.

#include "runtime/base/error.hpp"
#include "runtime/config/tree/yaml_node.hpp"
#include "runtime/config/tree/yaml_reader.hpp"

namespace cohort::config {

/// Works on a tree that it does not own.
class Merger {
 public:
  explicit Merger(Node& root) : root_(root) {}

  /// Lays `over` on `base`, a node of the tree.
  Expected<void> lay(Node& base, const Node& over);

  /// Replaces `node` by a copy of the map that it refers to, if it is one whole reference to a map.
  Expected<void> expand(Node& node);

 private:
  Node& root_;
  size_t budget_ = k_max_nodes;
};

}  // namespace cohort::config
