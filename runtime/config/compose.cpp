#include "runtime/config/compose.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/config/suggest.hpp"
#include "runtime/config/yaml_reader.hpp"

namespace cohort::config {
namespace {

constexpr int k_max_fragment_depth = 8;
constexpr size_t k_max_fragments = 64;

Error fault(const Mark& mark, std::string_view text) {
  return {Errc::config, fmt::format("{}: {}", mark.file_line_column(), text)};
}

class Composer {
 public:
  Expected<Node> compose(Node root, const std::filesystem::path& folder, int depth) {
    if (root.kind != NodeKind::map || root.find("defaults") == nullptr) return root;
    Node defaults = root.find("defaults")->node();
    root.erase("defaults");
    if (defaults.kind == NodeKind::null) return root;
    if (defaults.kind != NodeKind::sequence)
      return fault(defaults.mark,
                   fmt::format("defaults: expected a list, got {}", describe_value(defaults)));
    Node composed = Node::make_map(root.mark);
    bool has_self = false;
    for (const Node& entry : defaults.items) {
      if (entry.kind == NodeKind::scalar && entry.scalar == "_self_") {
        merge(composed, root);
        has_self = true;
        continue;
      }
      COHORT_ASSIGN(Node fragment, read_fragment(entry, folder, depth));
      merge(composed, fragment);
    }
    if (!has_self) merge(composed, root);
    return composed;
  }

 private:
  Expected<Node> read_fragment(const Node& entry, const std::filesystem::path& folder, int depth) {
    if (entry.kind != NodeKind::scalar)
      return fault(entry.mark, fmt::format("defaults: expected 'path@_here_' or '_self_', got {}",
                                           describe_value(entry)));
    std::string name = entry.scalar.substr(0, entry.scalar.find('@'));
    std::string package = entry.scalar.substr(std::min(name.size() + 1, entry.scalar.size()));
    if (package != "_here_" && package != "_global_")
      return fault(
          entry.mark,
          fmt::format("defaults entry '{}': only '@_here_' is known as its place", entry.scalar));
    if (depth >= k_max_fragment_depth || ++fragments_ > k_max_fragments)
      return fault(entry.mark, "defaults: fragments that name each other, or too many");
    std::filesystem::path path = (folder / (name + ".yaml")).lexically_normal();
    auto fragment = read_yaml(path);
    if (!fragment && fragment.error().code == Errc::not_found)
      return fault(entry.mark,
                   fmt::format("defaults entry '{}': no file {}", entry.scalar, path.string()));
    if (!fragment) return fragment.error();
    if (fragment->kind != NodeKind::map && fragment->kind != NodeKind::null)
      return fault(fragment->mark, "expected a map of keys");
    return compose(std::move(*fragment), path.parent_path(), depth + 1);
  }

  size_t fragments_ = 0;
};

/// Walks to the map that holds the last piece of `pieces`; makes maps on the way if `is_making`.
Expected<Node*> parent_of(Node& root, const std::vector<std::string>& pieces, const Mark& mark,
                          bool is_making) {
  Node* at = &root;
  std::string walked;
  for (size_t i = 0; i + 1 < pieces.size(); ++i) {
    walked = join_path(walked, pieces[i]);
    Entry* entry = at->find(pieces[i]);
    if (entry == nullptr && !is_making) return fault(mark, fmt::format("there is no '{}'", walked));
    if (entry == nullptr) {
      at->set(pieces[i], mark, Node::make_map(mark));
      entry = at->find(pieces[i]);
    }
    Node& next = entry->node();
    if (next.kind == NodeKind::null && is_making) next = Node::make_map(mark);
    if (next.kind != NodeKind::map)
      return fault(mark, fmt::format("'{}' holds {} (set at {}), so it has no '{}'", walked,
                                     describe_value(next), next.mark.file_line(), pieces[i + 1]));
    at = &next;
  }
  return at;
}

std::vector<std::string> keys_of(const Node& map) {
  std::vector<std::string> names;
  for (const Entry& entry : map.entries) names.push_back(entry.key);
  return names;
}

}  // namespace

void merge(Node& base, const Node& over) {
  if (base.kind != NodeKind::map || over.kind != NodeKind::map) {
    base = over;
    return;
  }
  for (const Entry& entry : over.entries) {
    if (Entry* present = base.find(entry.key)) {
      present->mark = entry.mark;
      merge(present->node(), entry.node());
    } else {
      base.entries.push_back(entry);
    }
  }
}

Expected<Node> compose(Node root, const std::filesystem::path& folder) {
  return Composer().compose(std::move(root), folder, 0);
}

Expected<void> apply_override(Node& root, const std::string& text) {
  std::string shown = text.substr(0, 200);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  Mark mark{std::make_shared<const std::string>(fmt::format("override '{}'", shown)), 0, 0};
  std::string_view rest = text;
  bool is_removing = rest.starts_with('~');
  bool is_forced = rest.starts_with("++");
  bool is_adding = !is_forced && rest.starts_with('+');
  rest.remove_prefix(is_forced ? 2 : is_removing || is_adding ? 1 : 0);
  size_t equals = rest.find('=');
  if (is_removing != (equals == std::string_view::npos))
    return fault(mark, is_removing ? "a removal is '~key' without a value"
                                   : "expected 'key=value', '+key=value' or '~key'");
  std::string_view path = rest.substr(0, equals);
  std::vector<std::string> pieces = split_path(path);
  bool has_empty = path.ends_with('.');
  for (const std::string& piece : pieces)
    has_empty = has_empty || piece.empty() || piece.find_first_of(" \t\n") != std::string::npos;
  static constexpr size_t k_max_pieces = 16;
  if (pieces.empty() || has_empty || pieces.size() > k_max_pieces)
    return fault(mark, fmt::format("'{}' is not a key path", path));
  COHORT_ASSIGN(Node * parent, parent_of(root, pieces, mark, !is_removing));
  const std::string& key = pieces.back();
  if (is_removing) {
    if (!parent->erase(key))
      return fault(mark,
                   fmt::format("there is no '{}'{}", path, did_you_mean(key, keys_of(*parent))));
    return {};
  }
  if (const Entry* present = parent->find(key); present != nullptr && is_adding)
    return fault(mark, fmt::format("'{}' is set already ({}); without '+' it is replaced", path,
                                   present->mark.file_line()));
  std::string_view value_text = rest.substr(equals + 1);
  Node value = Node::make_scalar("", true);
  if (!value_text.empty()) {
    COHORT_ASSIGN(value, parse_override_value(value_text, mark));
  }
  value.mark = mark;
  parent->set(key, mark, std::move(value));
  return {};
}

}  // namespace cohort::config
