#pragma once
/// A YAML tree of our own, with the place of every node in its source. yaml-cpp ends in
/// yaml_reader.cpp. Value types; not thread-safe per object. Bound: the reader stops at k_max_nodes
/// nodes.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::config {

/// A place in a source. `source` is a file name, or "override 'a.b=c'".
struct Mark {
  std::shared_ptr<const std::string> source;
  int line = 0;  // from 1; 0: the source has no lines
  int column = 0;

  std::string file_line() const;         // "configs/x.yaml:12"
  std::string file_line_column() const;  // "configs/x.yaml:12:3"
};

/// Returns Errc::config "file:line:column: text".
Error fault(const Mark& mark, std::string_view text);
template <class First, class... Rest>
Error fault(const Mark& mark, fmt::format_string<First, Rest...> text, First&& first,
            Rest&&... rest) {
  return fault(mark, fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...));
}

struct Problem {
  Mark mark;
  std::string text;
};

enum class NodeKind { null, scalar, sequence, map };

struct Node;

struct Entry {
  std::string key;
  Mark mark;                // of the key
  std::vector<Node> value;  // exactly one; a vector because Node is incomplete here

  Node& node() { return value.front(); }
  const Node& node() const { return value.front(); }
};

struct Node {
  NodeKind kind = NodeKind::null;
  Mark mark;
  std::string scalar;
  bool is_quoted = false;  // a quoted or block scalar: a string, whatever it looks like
  bool is_broken = false;  // its fault is reported already: not looked at again
  std::vector<Node> items;
  std::vector<Entry> entries;  // in file order, keys distinct

  static Node make_map(Mark mark);
  static Node make_scalar(std::string text, bool is_quoted);
  Entry* find(std::string_view key);
  const Entry* find(std::string_view key) const;
  /// Adds or replaces; the place of a replaced entry in the order stays.
  void set(std::string_view key, Mark mark, Node value);
  bool erase(std::string_view key);
  /// Node at "a.b.c" (sequence items by index), or null.
  Node* at_path(std::string_view path);
  const Node* at_path(std::string_view path) const;
  size_t node_count() const;
};

/// Returns "a.b" of ("a", "b"), "b" of ("", "b").
std::string join_path(std::string_view parent, std::string_view key);
/// Returns the pieces of "a.b.c".
std::vector<std::string> split_path(std::string_view path);

/// What messages call a node's value: "null", "the list [...]", "'abc'".
std::string describe_value(const Node& node);

// -- scalars as YAML 1.2's core schema reads them (yes/no/on/off too, as PyYAML does) ---
std::optional<bool> as_bool(const Node& node);
/// "010": 8 in YAML 1.1 (PyYAML, and so ROLL and verl), 10 in 1.2. No number here.
bool is_octal(std::string_view text);
std::optional<int64_t> as_int(const Node& node);
std::optional<double> as_double(const Node& node);
/// A plain scalar that YAML would read as null.
bool is_null_text(std::string_view text);
/// `text` between double quotes, its quotes, backslashes and control bytes escaped: YAML and JSON.
std::string in_quotes(std::string_view text);
/// True if `text`, written plain, would come back as something else than this string.
bool needs_quotes(std::string_view text);

/// Returns JSON of `node`; a number that is not finite is a text.
std::string to_json(const Node& node);
/// Returns block-style YAML of `node`, that reads back equal.
std::string to_yaml(const Node& node);

}  // namespace cohort::config
