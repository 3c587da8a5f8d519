#include "runtime/config/verl/verl_visit.hpp"

#include <fmt/format.h>

#include "runtime/config/tree/interpolate.hpp"

namespace cohort::config {
namespace {

Error expected(std::string_view what, const Node& node) {
  return {Errc::config, fmt::format("expected {}, got {}", what, describe_value(node))};
}

Node plain(std::string text) { return Node::make_scalar(std::move(text), false); }
Node string_node(std::string_view text) {
  return Node::make_scalar(escape_interpolation(text), true);
}

Node escaped(const Node& node) {
  Node copy = node;
  copy.scalar = escape_interpolation(node.scalar);
  for (Node& item : copy.items) item = escaped(item);
  for (Entry& entry : copy.entries) entry.node() = escaped(entry.node());
  return copy;
}

}  // namespace

void optional_boolean(Visitor& v, const Key& key, std::optional<bool>& x) {
  auto read = [&](const Node& node) -> Expected<void> {
    auto value = as_bool(node);
    if (node.kind != NodeKind::null && !value) return expected("true, false or ~", node);
    x = value;
    return {};
  };
  v.value(key, "bool or ~", read, [&x] { return x ? plain(*x ? "true" : "false") : Node{}; });
}

void number_list(Visitor& v, const Key& key, std::vector<double>& x) {
  std::string type = "list of numbers" + key.range.text();
  auto read = [&](const Node& node) -> Expected<void> {
    if (node.kind != NodeKind::sequence) return expected("a " + type, node);
    std::vector<double> numbers;
    for (const Node& item : node.items) {
      auto number = as_double(item);
      if (!number || !key.range.contains(*number)) return expected("a " + type, item);
      numbers.push_back(*number);
    }
    x = std::move(numbers);
    return {};
  };
  v.value(key, type, read, [&x] {
    Node node;
    node.kind = NodeKind::sequence;
    for (double number : x) node.items.push_back(plain(fmt::format("{}", number)));
    return node;
  });
}

void loose_text(Visitor& v, const Key& key, std::string& x) {
  auto read = [&](const Node& node) -> Expected<void> {
    if (node.kind == NodeKind::sequence || node.kind == NodeKind::map)
      return expected("a text or a number", node);
    x = node.kind == NodeKind::null ? "" : node.scalar;
    return {};
  };
  v.value(key, "text, number or ~", read, [&x] { return x.empty() ? Node{} : string_node(x); });
}

void free_map(Visitor& v, const Key& key, Node& x) {
  auto read = [&](const Node& node) -> Expected<void> {
    if (node.kind != NodeKind::null && node.kind != NodeKind::map)
      return expected("a section of keys", node);
    x = node;
    return {};
  };
  v.value(key, "section of any keys", read,
          [&x] { return x.entries.empty() ? Node::make_map({}) : escaped(x); });
}

std::optional<bool> free_boolean(const Node& map, std::string_view path) {
  const Node* node = map.at_path(path);
  return node == nullptr ? std::nullopt : as_bool(*node);
}

std::string free_text(const Node& map, std::string_view path) {
  const Node* node = map.at_path(path);
  return node == nullptr || node->kind != NodeKind::scalar ? "" : node->scalar;
}

}  // namespace cohort::config
