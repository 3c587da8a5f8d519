#include "runtime/config/interpolate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>

#include "runtime/config/suggest.hpp"
#include "runtime/config/yaml_reader.hpp"

namespace cohort::config {
namespace {

constexpr int k_max_interpolation_depth = 32;
constexpr size_t k_max_interpolated_bytes = size_t{4} << 20;

class Interpolator {
 public:
  Interpolator(const Node& root, const InterpolationSources& sources)
      : root_(root), sources_(sources) {}

  Interpolated run() {
    Node resolved = resolve(root_, 0);
    return {std::move(resolved), std::move(used_), std::move(problems_)};
  }

 private:
  /// `mark` is where the message points: the value that holds the `${…}`.
  Node broken(const Mark& mark, std::string text) {
    bool is_known = std::any_of(problems_.begin(), problems_.end(), [&](const Problem& problem) {
      return problem.text == text && problem.mark.file_line_column() == mark.file_line_column();
    });
    if (!is_known) problems_.push_back({mark, std::move(text)});
    Node node;
    node.mark = mark;
    node.is_broken = true;
    return node;
  }

  bool is_over_budget(const Node& node) {
    bytes_ += node.scalar.size();
    return ++count_ > k_max_nodes || bytes_ > k_max_interpolated_bytes;
  }

  Node resolve(const Node& raw, int depth) {
    if (is_over_budget(raw)) return broken(raw.mark, "interpolations make the config too large");
    if (depth > k_max_depth + k_max_interpolation_depth)
      return broken(raw.mark, "interpolations nest too deep");
    if (raw.kind == NodeKind::scalar && raw.scalar.find("${") != std::string::npos)
      return resolve_scalar(raw, depth);
    Node node;
    node.kind = raw.kind;
    node.mark = raw.mark;
    node.scalar = raw.scalar;
    node.is_quoted = raw.is_quoted;
    for (const Node& item : raw.items)  // of `raw`: cycles are found by its addresses
      node.items.push_back(resolve(item, depth + 1));
    for (const Entry& entry : raw.entries)
      node.entries.push_back({entry.key, entry.mark, {resolve(entry.node(), depth + 1)}});
    return node;
  }

  /// Index of the '}' that closes the "${" at `open`, or npos.
  static size_t closing_brace(std::string_view text, size_t open) {
    int level = 0;
    for (size_t i = open; i < text.size(); ++i) {
      if (text.substr(i).starts_with("${"))
        ++level;
      else if (text[i] == '}' && --level == 0)
        return i;
    }
    return std::string_view::npos;
  }

  Node resolve_scalar(const Node& raw, int depth) {
    if (std::find(active_.begin(), active_.end(), &raw) != active_.end())
      return broken(raw.mark, fmt::format("interpolation cycle at {}", describe_value(raw)));
    if (active_.size() > static_cast<size_t>(k_max_interpolation_depth))
      return broken(raw.mark, "interpolations nest too deep");
    active_.push_back(&raw);
    Node node = resolve_text(raw.scalar, raw, depth);
    active_.pop_back();
    if (node.kind == NodeKind::scalar || node.kind == NodeKind::null) node.mark = raw.mark;
    return node;
  }

  /// `text` is the scalar of `raw`, or an inner piece of it.
  Node resolve_text(std::string_view text, const Node& raw, int depth) {
    if (text.starts_with("${") && closing_brace(text, 0) == text.size() - 1)
      return resolve_reference(text.substr(2, text.size() - 3), raw, depth);
    std::string out;
    for (size_t i = 0; i < text.size();) {
      if (text.substr(i).starts_with("\\${")) {
        out += "${";
        i += 3;
        continue;
      }
      if (!text.substr(i).starts_with("${")) {
        out += text[i++];
        continue;
      }
      size_t end = closing_brace(text, i);
      if (end == std::string_view::npos)
        return broken(raw.mark, fmt::format("'${{' without '}}' in {}", describe_value(raw)));
      Node piece = resolve_reference(text.substr(i + 2, end - i - 2), raw, depth);
      if (piece.is_broken) return piece;
      if (piece.kind == NodeKind::map || piece.kind == NodeKind::sequence)
        return broken(raw.mark, fmt::format("{} splices {} into a text", describe_value(raw),
                                            describe_value(piece)));
      out += piece.kind == NodeKind::null ? "null" : piece.scalar;
      if (out.size() > k_max_interpolated_bytes)
        return broken(raw.mark, "interpolations make the config too large");
      i = end + 1;
    }
    Node node = Node::make_scalar(std::move(out), raw.is_quoted);
    node.mark = raw.mark;
    return node;
  }

  /// `body` is what stands between "${" and "}".
  Node resolve_reference(std::string_view body, const Node& raw, int depth) {
    if (body.size() > 1024 || depth > k_max_depth + k_max_interpolation_depth)
      return broken(raw.mark, "interpolations nest too deep");
    std::string inner(body);
    if (body.find("${") != std::string_view::npos) {
      Node resolved = resolve_text(body, raw, depth + 1);
      if (resolved.is_broken) return resolved;
      if (resolved.kind != NodeKind::scalar)
        return broken(raw.mark, fmt::format("'${{{}}}' is not a name", body));
      inner = resolved.scalar;
    }
    if (size_t colon = inner.find(':'); colon != std::string::npos)
      return resolve_function(inner.substr(0, colon), inner.substr(colon + 1), raw);
    return resolve_path(inner, raw, depth);
  }

  Node resolve_function(const std::string& name, const std::string& argument, const Node& raw) {
    if (name == "now") return marked(Node::make_scalar(sources_.now(argument), true), raw);
    if (name != "oc.env")
      return broken(raw.mark, fmt::format("unknown resolver '{}' (known: now, oc.env)", name));
    size_t comma = argument.find(',');
    std::string variable = argument.substr(0, comma);
    if (auto value = sources_.environment(variable))
      return marked(Node::make_scalar(*value, false), raw);
    if (comma == std::string::npos)
      return broken(raw.mark, fmt::format("environment variable {} is not set and has no default "
                                          "(write ${{oc.env:{},value}})",
                                          variable, variable));
    auto fallback = parse_override_value(argument.substr(comma + 1), raw.mark);
    if (!fallback || (fallback->kind != NodeKind::scalar && fallback->kind != NodeKind::null))
      return broken(raw.mark, fmt::format("the default of {} is not a scalar", variable));
    return marked(std::move(*fallback), raw);
  }

  static Node marked(Node node, const Node& raw) {
    node.mark = raw.mark;
    return node;
  }

  Node resolve_path(const std::string& path, const Node& raw, int depth) {
    if (path.empty() || path.front() == '.')
      return broken(raw.mark, fmt::format("'${{{}}}': write the whole path from the root", path));
    std::vector<std::string> pieces = split_path(path);
    used_.insert(pieces.front());
    Node holder;  // keeps an interpolated step of the path alive
    const Node* at = &root_;
    std::string walked;
    for (const std::string& piece : pieces) {
      if (at->kind == NodeKind::scalar && at->scalar.find("${") != std::string::npos) {
        Node step = resolve_scalar(*at, depth + 1);
        if (step.is_broken)
          return broken(raw.mark, fmt::format("'${{{}}}': '{}' does not resolve", path, walked));
        holder = std::move(step);
        at = &holder;
      }
      const Node* next = at->kind == NodeKind::map || at->kind == NodeKind::sequence
                             ? at->at_path(piece)
                             : nullptr;
      if (next == nullptr) return broken(raw.mark, missing_text(path, walked, piece, *at));
      at = next;
      walked = join_path(walked, piece);
    }
    bool is_resolved = holder.kind != NodeKind::null && at != &root_ && is_inside(holder, at);
    Node found = is_resolved ? *at : resolve(*at, depth + 1);
    return found.is_broken ? broken(raw.mark, fmt::format("'${{{}}}' does not resolve", path))
                           : found;
  }

  static bool is_inside(const Node& tree, const Node* node) {
    auto holds = [node](const Node& child) { return is_inside(child, node); };
    return &tree == node || std::any_of(tree.items.begin(), tree.items.end(), holds) ||
           std::any_of(tree.entries.begin(), tree.entries.end(),
                       [&](const Entry& entry) { return holds(entry.node()); });
  }

  static std::string missing_text(const std::string& path, const std::string& walked,
                                  const std::string& piece, const Node& at) {
    std::vector<std::string> names;
    for (const Entry& entry : at.entries) names.push_back(entry.key);
    std::string where = walked.empty() ? "" : fmt::format(" in '{}'", walked);
    return fmt::format("'${{{}}}' names no key: there is no '{}'{}{}", path, piece, where,
                       did_you_mean(piece, names));
  }

  const Node& root_;
  const InterpolationSources& sources_;
  std::vector<const Node*> active_;  // scalars whose interpolation is under way
  std::set<std::string> used_;
  std::vector<Problem> problems_;
  size_t count_ = 0;
  size_t bytes_ = 0;
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
    std::array<char, 256> text{};
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
    if (text.substr(i).starts_with("${")) out += '\\';
    out += text[i];
  }
  return out;
}

}  // namespace cohort::config
