#include <fmt/format.h>

#include "runtime/base/suggest.hpp"
#include "runtime/config/tree/compose.hpp"
#include "runtime/config/tree/interpolate.hpp"
#include "runtime/config/tree/merge.hpp"
#include "runtime/config/tree/override.hpp"

namespace cohort::config {
namespace {

std::vector<std::string> keys_of(const Node& map) {
  std::vector<std::string> names;
  for (const Entry& entry : map.entries) names.push_back(entry.key);
  return names;
}

class Applier {
 public:
  Applier(Node& root, const Override& change) : root_(root), merger_(root), change_(change) {}

  Expected<void> run() {
    COHORT_ASSIGN(Node * parent, walk());
    const std::string& key = change_.path.back();
    Node* present = parent->at_path(key);
    if (change_.kind == Override::Kind::remove) return remove(*parent, present);
    if (present == nullptr && parent->kind == NodeKind::sequence)
      return missing(*parent, key, walked_);
    Node value = *change_.value;
    bool is_container = value.kind == NodeKind::map || value.kind == NodeKind::sequence;
    if (change_.kind == Override::Kind::add && present != nullptr && !is_container &&
        present->kind != NodeKind::null)
      return fault(change_.mark, "'{}' is set already ({}); without '+' it is replaced",
                   whole_path(), present->mark.file_line());
    if (present == nullptr) {
      parent->set(key, change_.mark, std::move(value));
      return {};
    }
    if (Entry* entry = parent->kind == NodeKind::map ? parent->find(key) : nullptr)
      entry->mark = change_.mark;
    if (value.kind != NodeKind::map) {
      *present = std::move(value);
      return {};
    }
    return merger_.lay(*present, value);
  }

 private:
  std::string whole_path() const { return fmt::format("{}", fmt::join(change_.path, ".")); }

  /// The map or list that holds the last piece; maps on the way are made unless it removes.
  Expected<Node*> walk() {
    bool is_making = change_.kind != Override::Kind::remove;
    Node* at = &root_;
    for (size_t i = 0; i + 1 < change_.path.size(); ++i) {
      const std::string& piece = change_.path[i];
      Node* next = at->at_path(piece);
      if (next == nullptr && (!is_making || at->kind == NodeKind::sequence))
        return missing(*at, piece, walked_);
      if (next == nullptr) {
        at->set(piece, change_.mark, Node::make_map(change_.mark));
        next = at->at_path(piece);
      }
      walked_ = join_path(walked_, piece);
      if (next->kind == NodeKind::null && is_making) *next = Node::make_map(change_.mark);
      COHORT_TRY(merger_.expand(*next));
      if (next->kind != NodeKind::map && next->kind != NodeKind::sequence)
        return fault(change_.mark, "'{}' holds {} (set at {}), so it has no '{}'", walked_,
                     describe_value(*next), next->mark.file_line(), change_.path[i + 1]);
      at = next;
    }
    return at;
  }

  Error missing(const Node& at, const std::string& piece, const std::string& walked) const {
    if (at.kind == NodeKind::sequence)
      return fault(change_.mark, "'{}' is a list of {} items: there is no item '{}'", walked,
                   at.items.size(), piece);
    return fault(change_.mark, "there is no '{}'{}", join_path(walked, piece),
                 did_you_mean(piece, keys_of(at)));
  }

  Expected<void> remove(Node& parent, const Node* present) {
    const std::string& key = change_.path.back();
    if (present == nullptr) return missing(parent, key, walked_);
    if (change_.value && to_yaml(*change_.value) != to_yaml(*present))
      return fault(change_.mark, "'{}' holds {} (set at {}), not {}: it stays", whole_path(),
                   describe_value(*present), present->mark.file_line(),
                   describe_value(*change_.value));
    if (parent.kind == NodeKind::sequence)
      parent.items.erase(parent.items.begin() + (present - parent.items.data()));
    else
      parent.erase(key);
    return {};
  }

  Node& root_;
  Merger merger_;
  const Override& change_;
  std::string walked_;
};

}  // namespace

Expected<void> apply_override(Node& root, const std::string& text) {
  COHORT_ASSIGN(Override change, parse_override(text));
  return Applier(root, change).run();
}

}  // namespace cohort::config
