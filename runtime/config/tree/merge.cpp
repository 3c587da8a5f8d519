#include "runtime/config/tree/merge.hpp"

#include "runtime/config/tree/interpolate.hpp"

namespace cohort::config {
namespace {

/// The map that a whole reference names, or null.
const Node* referred_map(const Node& root, const Node& node) {
  static constexpr int k_max_chain = 32;
  const Node* at = &node;
  for (int i = 0; i < k_max_chain; ++i) {
    if (at->kind == NodeKind::map) return at;
    auto path = at->kind == NodeKind::scalar ? whole_reference(at->scalar) : std::nullopt;
    if (!path) return nullptr;
    at = root.at_path(*path);
    if (at == nullptr) return nullptr;
  }
  return nullptr;
}

}  // namespace

Expected<void> Merger::expand(Node& node) {
  const Node* target = node.kind == NodeKind::scalar ? referred_map(root_, node) : nullptr;
  if (target == nullptr) return {};
  size_t count = target->node_count();
  if (count > budget_)
    return fault(node.mark, "references expand to more than {} values", k_max_nodes);
  budget_ -= count;
  Node copy = *target;  // `node` may be inside of it
  node = std::move(copy);
  return {};
}

Expected<void> Merger::lay(Node& base, const Node& over) {
  if (over.kind == NodeKind::scalar && over.scalar == "???" && base.kind != NodeKind::null)
    return {};
  if (over.kind == NodeKind::map) COHORT_TRY(expand(base));
  if (base.kind != NodeKind::map || over.kind != NodeKind::map) {
    base = over;
    return {};
  }
  for (const Entry& entry : over.entries) {
    if (Entry* present = base.find(entry.key)) {
      present->mark = entry.mark;
      COHORT_TRY(lay(present->node(), entry.node()));
    } else {
      base.entries.push_back(entry);
    }
  }
  return {};
}

}  // namespace cohort::config
