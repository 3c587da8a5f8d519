#include "runtime/config/tree/interpolate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <map>
#include <unordered_map>

#include "runtime/base/suggest.hpp"
#include "runtime/base/text.hpp"
#include "runtime/config/tree/override.hpp"
#include "runtime/config/tree/utf8_text.hpp"
#include "runtime/config/tree/yaml_reader.hpp"

namespace cohort::config {
namespace {

constexpr size_t k_max_references = 32;    // in a chain
constexpr size_t k_max_body_bytes = 1024;  // between "${" and "}"
constexpr size_t k_max_steps = 10 * k_max_nodes;
constexpr int k_max_braces = 16;  // references inside of references

bool is_reference(const Node& node) {
  return node.kind == NodeKind::scalar && node.scalar.find("${") != std::string::npos;
}

/// Index of `wanted` outside of nested "${…}" and quotes, or the end of `text`.
size_t find_outside(std::string_view text, char wanted) {
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quote == 0 && text.substr(i).starts_with("${")) {
      size_t end = closing_brace(text, i);
      if (end == text.npos) return text.size();
      i = end;
    } else if (quote != 0 || text[i] == '\'' || text[i] == '"') {
      quote = quote == 0 ? text[i] : text[i] == quote ? '\0' : quote;
    } else if (text[i] == wanted) {
      return i;
    }
  }
  return text.size();
}

/// "a[b].c" -> "a.b.c"; false: brackets that do not pair.
bool flatten_brackets(std::string& path) {
  std::string flat;
  bool is_open = false;
  for (char c : path) {
    if (c == '[' || c == ']') {
      if (is_open == (c == '[')) return false;
      is_open = c == '[';
      if (is_open && !flat.empty() && flat.back() != '.') flat += '.';
      continue;
    }
    flat += c;
  }
  path = std::move(flat);
  return !is_open;
}

class Interpolator {
 public:
  Interpolator(const Node& root, const InterpolationSources& sources)
      : root_(root), sources_(sources) {
    index(root, nullptr, "");
  }

  Interpolated run() {
    Node resolved = resolve(root_, 0);
    return {std::move(resolved), std::move(used_), std::move(problems_)};
  }

 private:
  /// Where a node hangs in the raw tree.
  struct Place {
    const Node* parent = nullptr;
    std::string key;
  };
  /// A node of the raw tree, or the resolved text that a path ends in.
  struct Found {
    const Node* node = nullptr;
    std::optional<Node> failure;  // broken; its problem is reported
    std::string missing;          // what is not there; empty: found
  };

  void index(const Node& node, const Node* parent, std::string key) {
    places_[&node] = {parent, std::move(key)};
    for (size_t i = 0; i < node.items.size(); ++i) index(node.items[i], &node, std::to_string(i));
    for (const Entry& entry : node.entries) index(entry.node(), &node, entry.key);
  }

  std::string path_of(const Node& node) const {
    std::string path;
    for (const Node* at = &node; at != nullptr && at != &root_; at = places_.at(at).parent)
      path = path.empty() ? places_.at(at).key : join_path(places_.at(at).key, path);
    return path;
  }

  Node broken(const Mark& mark, std::string text) {
    if (reported_.insert(fmt::format("{}: {}", mark.file_line_column(), text)).second)
      problems_.push_back({mark, std::move(text)});
    return broken_silently(mark);
  }

  static Node broken_silently(const Mark& mark) {
    Node node;
    node.mark = mark;
    node.is_broken = true;
    return node;
  }

  bool is_over_budget(const Node& node) {
    bytes_ += node.scalar.size();
    return ++count_ > k_max_nodes || bytes_ > k_max_scalar_bytes;
  }

  Node exhausted(const Mark& mark) {
    if (is_exhausted_) return broken_silently(mark);
    is_exhausted_ = true;
    return broken(mark, fmt::format("the references make the config too large: more than {} "
                                    "values or {} bytes",
                                    k_max_nodes, k_max_scalar_bytes));
  }

  Node resolve(const Node& raw, int depth) {
    if (is_over_budget(raw)) return exhausted(raw.mark);
    if (depth > k_max_depth * 2) return broken(raw.mark, "references nest too deep");
    if (is_reference(raw)) return resolve_scalar(raw, depth);
    if (raw.kind == NodeKind::scalar && raw.scalar == "???")
      return broken(raw.mark, fmt::format("'{}' is ???: it must be given, here or by an override",
                                          path_of(raw)));
    Node node;
    node.kind = raw.kind;
    node.mark = raw.mark;
    node.scalar = raw.scalar;
    node.is_quoted = raw.is_quoted;
    for (const Node& item : raw.items)  // of `raw`: places and cycles go by its addresses
      node.items.push_back(resolve(item, depth + 1));
    for (const Entry& entry : raw.entries)
      node.entries.push_back({entry.key, entry.mark, {resolve(entry.node(), depth + 1)}});
    return node;
  }

  /// Puts `raw` on the chain of references. Returns the failure if it is there already.
  std::optional<Node> enter(const Node& raw) {
    auto first = std::find(active_.begin(), active_.end(), &raw);
    if (first != active_.end()) {
      std::string chain;
      for (auto it = first; it != active_.end(); ++it)
        chain += fmt::format("{} -> ", path_of(**it));
      return broken(raw.mark, fmt::format("references go in a circle: {}{}", chain, path_of(raw)));
    }
    if (active_.size() >= k_max_references)
      return broken(raw.mark, fmt::format("a chain of more than {} references", k_max_references));
    active_.push_back(&raw);
    return std::nullopt;
  }

  Node resolve_scalar(const Node& raw, int depth) {
    if (auto known = texts_.find(&raw); known != texts_.end()) return known->second;
    if (auto failure = enter(raw)) return *failure;
    Node node = resolve_text(raw.scalar, raw, depth, 0);
    active_.pop_back();
    if (node.kind != NodeKind::scalar && node.kind != NodeKind::null) return node;
    node.mark = raw.mark;
    texts_[&raw] = node;
    return node;
  }

  /// `text` is the scalar of `raw`, or an inner piece of it.
  Node resolve_text(std::string_view text, const Node& raw, int depth, int braces) {
    if (text.starts_with("${") && closing_brace(text, 0) == text.size() - 1)
      return resolve_reference(text.substr(2, text.size() - 3), raw, depth, braces);
    std::string out;
    for (size_t i = 0; i < text.size();) {
      size_t open = text.find("${", i);
      size_t slashes = open == text.npos ? 0 : backslashes_before(text, i, open);
      out += text.substr(i, open == text.npos ? text.npos : open - slashes - i);
      if (open == text.npos) break;
      out.append(slashes / 2, '\\');
      if (slashes % 2 == 1) {
        out += "${";
        i = open + 2;
        continue;
      }
      size_t end = closing_brace(text, open);
      if (end == text.npos)
        return broken(raw.mark, fmt::format("'${{' without '}}' in {}", describe_value(raw)));
      Node piece = resolve_reference(text.substr(open + 2, end - open - 2), raw, depth, braces);
      if (piece.is_broken) return piece;
      if (piece.kind == NodeKind::map || piece.kind == NodeKind::sequence)
        return broken(raw.mark, fmt::format("{} splices {} into a text", describe_value(raw),
                                            describe_value(piece)));
      out += piece.kind == NodeKind::null ? "null" : piece.scalar;
      if (out.size() + bytes_ > k_max_scalar_bytes) return exhausted(raw.mark);
      i = end + 1;
    }
    bytes_ += out.size();
    Node node = Node::make_scalar(std::move(out), raw.is_quoted);
    node.mark = raw.mark;
    return node;
  }

  static size_t backslashes_before(std::string_view text, size_t begin, size_t end) {
    size_t count = 0;
    while (end - count > begin && text[end - count - 1] == '\\') ++count;
    return count;
  }

  /// `body` is what stands between "${" and "}".
  Node resolve_reference(std::string_view body, const Node& raw, int depth, int braces) {
    if (body.size() > k_max_body_bytes || braces >= k_max_braces)
      return broken(raw.mark, "a reference that is too long or nests too deep");
    size_t colon = find_outside(body, ':');
    std::string name(trim(body.substr(0, colon), " \t"));
    if (name.find("${") != std::string::npos) {
      Node resolved = resolve_text(name, raw, depth + 1, braces + 1);
      if (resolved.is_broken) return resolved;
      if (resolved.kind != NodeKind::scalar)
        return broken(raw.mark, fmt::format("'${{{}}}' is not a name", shown_text(body)));
      name = resolved.scalar;
    }
    if (colon < body.size())
      return resolve_function(name, body.substr(colon + 1), raw, depth, braces);
    return resolve_path(name, raw, depth);
  }

  Node resolve_function(const std::string& name, std::string_view arguments, const Node& raw,
                        int depth, int braces) {
    if (name == "now") return now(trim(arguments, " \t"), raw);
    static constexpr std::array<std::string_view, 3> k_names = {"oc.env", "oc.select", "oc.decode"};
    if (std::find(k_names.begin(), k_names.end(), name) == k_names.end())
      return broken(raw.mark, fmt::format("unknown resolver '{}' (known: now, oc.env, oc.select, "
                                          "oc.decode)",
                                          shown_text(name)));
    size_t comma = find_outside(arguments, ',');
    Node first = argument(arguments.substr(0, comma), raw, depth, braces);
    if (first.is_broken) return first;
    if (first.kind != NodeKind::scalar)
      return broken(raw.mark,
                    fmt::format("{} wants a text first, got {}", name, describe_value(first)));
    std::optional<Node> fallback;
    if (comma < arguments.size()) {
      fallback = argument(arguments.substr(comma + 1), raw, depth, braces);
      if (fallback->is_broken) return *fallback;
    }
    if (name == "oc.env") return environment(first.scalar, std::move(fallback), raw);
    if (name == "oc.select") return select(first.scalar, std::move(fallback), raw, depth);
    if (fallback) return broken(raw.mark, "oc.decode takes one text");
    return parsed(first.scalar, raw);
  }

  Node now(std::string_view format, const Node& raw) {
    if (format.size() >= 2 && (format.front() == '\'' || format.front() == '"') &&
        format.front() == format.back())
      format = format.substr(1, format.size() - 2);
    std::string text = sources_.now(std::string(format));
    if (text.empty() || find_bad_byte(text))
      return broken(raw.mark, fmt::format("'{}' gives no time", shown_text(format)));
    return marked(Node::make_scalar(std::move(text), true), raw);
  }

  Node argument(std::string_view text, const Node& raw, int depth, int braces) {
    text = trim(text, " \t");
    if (text.find("${") != text.npos) return resolve_text(text, raw, depth + 1, braces + 1);
    return parsed(text, raw);
  }

  Node parsed(std::string_view text, const Node& raw) {
    auto node = parse_override_value(text, raw.mark);
    return node ? std::move(*node)
                : broken(raw.mark,
                         node.error().detail.substr(std::min(raw.mark.file_line_column().size() + 2,
                                                             node.error().detail.size())));
  }

  Node environment(const std::string& variable, std::optional<Node> fallback, const Node& raw) {
    if (auto value = sources_.environment(variable)) {
      if (auto bad = find_bad_byte(*value))
        return broken(raw.mark, fmt::format("environment variable {}: {}", variable, bad->text));
      return marked(Node::make_scalar(*value, value->empty()), raw);
    }
    if (fallback) return marked(std::move(*fallback), raw);
    return broken(raw.mark, fmt::format("environment variable {} is not set and has no default "
                                        "(write ${{oc.env:{},value}})",
                                        shown_text(variable), shown_text(variable)));
  }

  Node select(const std::string& path, std::optional<Node> fallback, const Node& raw, int depth) {
    Found found = locate(path, raw, depth);
    if (found.failure) return *found.failure;
    bool is_there = found.missing.empty() &&
                    !(found.node->kind == NodeKind::scalar && found.node->scalar == "???");
    if (is_there) return resolve(*found.node, depth + 1);
    return marked(fallback ? std::move(*fallback) : Node{}, raw);
  }

  static Node marked(Node node, const Node& raw) {
    node.mark = raw.mark;
    return node;
  }

  Node resolve_path(const std::string& path, const Node& raw, int depth) {
    Found found = locate(path, raw, depth);
    if (found.failure) return *found.failure;
    if (!found.missing.empty()) return broken(raw.mark, found.missing);
    return resolve(*found.node, depth + 1);
  }

  /// Walks `path` over the raw tree; a reference on the way is followed.
  Found locate(std::string path, const Node& raw, int depth) {
    const std::string shown = shown_text(path);
    auto refused = [&](std::string_view text) {
      return Found{nullptr, broken(raw.mark, fmt::format("'${{{}}}' {}", shown, text)), ""};
    };
    if (depth > k_max_depth * 2) return refused("nests too deep");
    const Node* at = &root_;
    size_t dots = std::min(path.find_first_not_of('.'), path.size());
    path.erase(0, dots);
    if (dots > 0) {  // one dot is the map that holds the value
      at = &raw;
      for (size_t i = 0; i < dots && at != nullptr; ++i) at = places_.at(at).parent;
      if (at == nullptr) return refused("has more dots than there are maps around it");
    }
    if (!flatten_brackets(path) || (path.empty() && dots == 0) || path.ends_with('.') ||
        path.find("..") != path.npos)
      return refused("is not a path");
    std::vector<std::string> pieces = split_path(path);
    if (dots == 0 && top_key(raw) != pieces.front()) used_.insert(pieces.front());
    for (const std::string& piece : pieces) {
      if (++steps_ > k_max_steps) return {nullptr, exhausted(raw.mark), ""};
      Found target = follow(*at, raw, depth);
      if (target.failure || !target.missing.empty()) return target;
      at = target.node;
      const Node* next = at->at_path(piece);
      if (next == nullptr || at->kind == NodeKind::scalar)
        return {nullptr, std::nullopt, missing_text(shown, piece, *at)};
      at = next;
    }
    return {at, std::nullopt, ""};
  }

  /// The node that `node` stands for if it is one whole reference to a path, else itself.
  Found follow(const Node& node, const Node& raw, int depth) {
    if (!is_reference(node)) return {&node, std::nullopt, ""};
    std::string_view text = node.scalar;
    std::string_view body = text.substr(std::min<size_t>(2, text.size()));
    body = body.substr(0, body.size() - std::min<size_t>(1, body.size()));
    bool is_whole = text.starts_with("${") && closing_brace(text, 0) == text.size() - 1;
    if (!is_whole || find_outside(body, ':') < body.size())
      return {nullptr, std::nullopt, fmt::format("'{}' is a text, it has no keys", path_of(node))};
    if (auto failure = enter(node)) return {nullptr, std::move(failure), ""};
    Found found;
    std::string path(trim(body, " \t"));
    if (path.find("${") != std::string::npos) {
      Node resolved = resolve_text(path, node, depth + 1, 1);
      if (resolved.kind != NodeKind::scalar)
        found.failure = resolved.is_broken ? resolved : broken(raw.mark, "not a name");
      path = resolved.scalar;
    }
    if (!found.failure) found = locate(path, node, depth + 1);
    if (!found.failure && found.missing.empty()) found = follow(*found.node, raw, depth + 1);
    active_.pop_back();
    return found;
  }

  /// The top-level key that holds `raw`.
  std::string top_key(const Node& raw) const {
    const Place* place = &places_.at(&raw);
    while (place->parent != nullptr && place->parent != &root_) place = &places_.at(place->parent);
    return place->key;
  }

  std::string missing_text(const std::string& path, const std::string& piece,
                           const Node& at) const {
    std::vector<std::string> names;
    for (const Entry& entry : at.entries) names.push_back(entry.key);
    std::string where = path_of(at);
    return fmt::format("'${{{}}}' names no key: there is no '{}'{}{}", path, shown_text(piece),
                       where.empty() ? "" : fmt::format(" in '{}'", where),
                       did_you_mean(piece, names));
  }

  const Node& root_;
  const InterpolationSources& sources_;
  std::unordered_map<const Node*, Place> places_;
  std::vector<const Node*> active_;    // scalars whose references are under way
  std::map<const Node*, Node> texts_;  // scalars that are resolved
  std::set<std::string> used_;
  std::vector<Problem> problems_;
  std::set<std::string> reported_;
  size_t steps_ = 0;  // of all paths
  size_t count_ = 0;
  size_t bytes_ = 0;
  bool is_exhausted_ = false;
};

}  // namespace

InterpolationSources process_sources() {
  std::time_t instant = std::time(nullptr);
  auto environment = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  auto now = [instant](const std::string& format) {
    std::tm parts{};
    localtime_r(&instant, &parts);
    std::array<char, 1024> text{};  // a longer result is none
    size_t size = std::strftime(text.data(), text.size(), format.c_str(), &parts);
    return std::string(text.data(), size);
  };
  return {environment, now};
}

Interpolated interpolate(const Node& root, const InterpolationSources& sources) {
  return Interpolator(root, sources).run();
}

std::string escape_interpolation(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("${")) {
      size_t slashes = out.size() - std::min(out.size(), out.find_last_not_of('\\') + 1);
      out.append(slashes + 1, '\\');
    }
    out += text[i];
  }
  return out;
}

std::optional<std::string> whole_reference(std::string_view text) {
  if (!text.starts_with("${") || closing_brace(text, 0) != text.size() - 1) return std::nullopt;
  std::string path(trim(text.substr(2, text.size() - 3), " \t"));
  if (path.find_first_of("$:{'\"") != std::string::npos || path.starts_with('.') ||
      !flatten_brackets(path) || path.empty())
    return std::nullopt;
  return path;
}

}  // namespace cohort::config
