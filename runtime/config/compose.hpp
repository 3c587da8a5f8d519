#pragma once
/// One tree from a primary file, the fragments of its `defaults:` list and the command line's
/// overrides. Rules (Hydra's, roll.md 2.1): entries "path@_here_" are files relative to the file
/// that names them;
/// `_self_` (last when absent) is the file itself; later ones win; maps merge deep, lists replace.
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/config/node.hpp"

namespace cohort::config {

/// Returns `root` merged with its fragments, `defaults` taken out. `folder` is where `root` was
/// read.
Expected<Node> compose(Node root, const std::filesystem::path& folder);

/// Lays `over` on `base`: maps merge, everything else replaces.
void merge(Node& base, const Node& over);

/// Applies one of "a.b=c" (set), "+a.b=c" (add, must be new), "++a.b=c" (set), "~a.b" (remove, must
/// be there).
Expected<void> apply_override(Node& root, const std::string& text);

}  // namespace cohort::config
