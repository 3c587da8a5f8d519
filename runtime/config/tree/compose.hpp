#pragma once
/// One tree from a primary file, the fragments of its `defaults:` list and the command line's
/// overrides. Hydra's rules (docs/config.md). An entry is `path`, `path@package`, `group: option`,
/// `group@package: option`, `optional …`, or `_self_`, the file itself (last when absent); later
/// ones win; maps merge deep, lists replace. A file is looked up relative to the file that names it
/// ("/path": to the primary file), then its last name among the shipped fragments. A fragment's
/// own defaults come first to it in the same way.
/// package: where it lands. `_here_`: where the naming file lands; `_global_`: the root; `_group_`,
/// `_name_`; else keys. None: what its first lines say ("# @package a.b"), else the folders of
/// `path`, or `_here_` if those leave the naming file's folder.
/// Bounds: 64 fragments, 16 deep, k_max_nodes values in all.
#include <filesystem>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/config/tree/yaml_node.hpp"

namespace cohort::config {

/// Returns `root` merged with its fragments, `defaults` taken out. `folder` is where `root` was
/// read. Returns Errc::config "file:line:column: …" of the entry at fault; a circle is named.
Expected<Node> compose(Node root, const std::filesystem::path& folder);

/// Lays `over` on `base`: maps merge, everything else replaces.
void merge(Node& base, const Node& over);

/// Applies one of "a.b=c" (set; a map is merged into a map), "+a.b=c" (add, must be new, null or a
/// container), "++a.b=c" (set), "~a.b" (remove, must be there), "~a.b=c" (remove, must be equal).
/// A piece is a key or the index of a list's item. A reference "${x}" on the way to a map is
/// replaced by a copy of that map. Returns Errc::config "override '…': …".
Expected<void> apply_override(Node& root, const std::string& text);

}  // namespace cohort::config
