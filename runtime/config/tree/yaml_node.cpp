#include "runtime/config/tree/yaml_node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

namespace cohort::config {

std::string Mark::file_line() const {
  std::string name = source ? *source : std::string{};
  return line > 0 ? fmt::format("{}:{}", name, line) : name;
}

std::string Mark::file_line_column() const {
  return line > 0 ? fmt::format("{}:{}", file_line(), column) : file_line();
}

Error fault(const Mark& mark, std::string_view text) {
  return {Errc::config, fmt::format("{}: {}", mark.file_line_column(), text)};
}

Node Node::make_map(Mark mark) {
  Node node;
  node.kind = NodeKind::map;
  node.mark = std::move(mark);
  return node;
}

Node Node::make_scalar(std::string text, bool is_quoted) {
  Node node;
  node.kind = NodeKind::scalar;
  node.scalar = std::move(text);
  node.is_quoted = is_quoted;
  return node;
}

Entry* Node::find(std::string_view key) {
  auto it = std::find_if(entries.begin(), entries.end(),
                         [&](const Entry& entry) { return entry.key == key; });
  return it == entries.end() ? nullptr : &*it;
}

const Entry* Node::find(std::string_view key) const { return const_cast<Node*>(this)->find(key); }

void Node::set(std::string_view key, Mark key_mark, Node value) {
  if (Entry* entry = find(key)) {
    entry->mark = std::move(key_mark);
    entry->node() = std::move(value);
    return;
  }
  Entry entry{std::string(key), std::move(key_mark), {}};
  entry.value.push_back(std::move(value));
  entries.push_back(std::move(entry));
}

bool Node::erase(std::string_view key) {
  return std::erase_if(entries, [&](const Entry& entry) { return entry.key == key; }) > 0;
}

const Node* Node::at_path(std::string_view path) const {
  const Node* node = this;
  for (const std::string& piece : split_path(path)) {
    if (node->kind == NodeKind::map) {
      const Entry* entry = node->find(piece);
      if (entry == nullptr) return nullptr;
      node = &entry->node();
      continue;
    }
    size_t index = 0;
    auto [end, failure] = std::from_chars(piece.data(), piece.data() + piece.size(), index);
    if (node->kind != NodeKind::sequence || failure != std::errc{} ||
        end != piece.data() + piece.size() || index >= node->items.size())
      return nullptr;
    node = &node->items[index];
  }
  return node;
}

Node* Node::at_path(std::string_view path) {
  return const_cast<Node*>(std::as_const(*this).at_path(path));
}

size_t Node::node_count() const {
  size_t count = 1;
  for (const Node& item : items) count += item.node_count();
  for (const Entry& entry : entries) count += entry.node().node_count();
  return count;
}

std::string join_path(std::string_view parent, std::string_view key) {
  return parent.empty() ? std::string(key) : fmt::format("{}.{}", parent, key);
}

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> pieces;
  while (!path.empty()) {
    size_t dot = path.find('.');
    pieces.emplace_back(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  }
  return pieces;
}

std::string describe_value(const Node& node) {
  static constexpr size_t k_shown_max = 60;  // [bytes] of a value in a message
  switch (node.kind) {
    case NodeKind::null:
      return "null";
    case NodeKind::sequence:
      return "a list";
    case NodeKind::map:
      return "a map";
    case NodeKind::scalar:
      break;
  }
  std::string shown;
  for (char c : node.scalar.substr(0, k_shown_max))
    shown += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  if (node.scalar.size() > k_shown_max) shown += "…";
  return fmt::format("{}'{}'", node.is_quoted ? "the string " : "", shown);
}

bool is_null_text(std::string_view text) {
  static constexpr std::array<std::string_view, 5> k_nulls = {"", "~", "null", "Null", "NULL"};
  return std::find(k_nulls.begin(), k_nulls.end(), text) != k_nulls.end();
}

std::optional<bool> as_bool(const Node& node) {
  if (node.kind != NodeKind::scalar || node.is_quoted || node.scalar.size() > 5)
    return std::nullopt;
  std::string text = node.scalar;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (text == "true" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "no" || text == "off") return false;
  return std::nullopt;
}

bool is_octal(std::string_view text) {
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return text.size() > 1 && text.front() == '0' &&
         text.find_first_not_of("0123456789_") == std::string_view::npos;
}

std::optional<int64_t> as_int(const Node& node) {
  if (node.kind != NodeKind::scalar || node.is_quoted || is_octal(node.scalar)) return std::nullopt;
  std::string_view text = node.scalar;
  if (text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  std::string digits;  // 1_000_000 as PyYAML reads it
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
               [](char c) { return c != '_'; });
  int64_t value = 0;
  const char* last = digits.data() + digits.size();
  auto [end, failure] = std::from_chars(digits.data(), last, value, base);
  if (digits.empty() || failure != std::errc{} || end != last || text.starts_with('_'))
    return std::nullopt;
  return value;
}

std::optional<double> as_double(const Node& node) {
  if (node.kind != NodeKind::scalar || node.is_quoted || is_octal(node.scalar)) return std::nullopt;
  if (auto integer = as_int(node)) return static_cast<double>(*integer);
  std::string digits;  // 1_000.5 as PyYAML reads it
  std::copy_if(node.scalar.begin(), node.scalar.end(), std::back_inserter(digits),
               [](char c) { return c != '_'; });
  std::string_view text = digits;
  if (node.scalar.starts_with('_')) return std::nullopt;
  if (text.starts_with('+')) text.remove_prefix(1);
  // from_chars would also take "inf" and "nan": no key wants them
  if (text.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return std::nullopt;
  double value = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || failure != std::errc{} || end != text.data() + text.size() ||
      !std::isfinite(value))
    return std::nullopt;
  return value;
}

bool needs_quotes(std::string_view text) {
  if (is_null_text(text) || text.front() == ' ' || text.back() == ' ') return true;
  Node plain = Node::make_scalar(std::string(text), false);
  if (as_bool(plain) || as_double(plain) || is_octal(text) || text == "=" || text == "<<" ||
      text == "---")
    return true;
  // plain scalars that no YAML reader can take for something else
  auto is_safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '/' || c == '-' || c == '+';
  };
  return text.front() == '-' || text.front() == '.' ||
         !std::all_of(text.begin(), text.end(), is_safe);
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (c == '\n')
      out += "\\n";
    else if (byte < 0x20 || byte == 0x7F)
      out += fmt::format("\\u{:04X}", byte);
    else
      out += c;
  }
  return out + '"';
}

namespace {

std::string scalar_text(const Node& node) {
  if (node.kind == NodeKind::null) return "~";
  bool is_string = node.is_quoted || (!as_bool(node) && !as_double(node));
  return is_string && needs_quotes(node.scalar) ? in_quotes(node.scalar) : node.scalar;
}

/// Lines that a literal block keeps as they are: no tab, no other control byte, no space at a
/// line's start or end, one or no newline at the end.
bool fits_literal_block(const Node& node) {
  const std::string& text = node.scalar;
  if (node.kind != NodeKind::scalar || text.find('\n') == std::string::npos ||
      text.front() == ' ' || text.front() == '\n' || text.ends_with("\n\n"))
    return false;
  bool has_control = std::any_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7F;
  });
  return !has_control && text.find(" \n") == std::string::npos &&
         text.find("\n ") == std::string::npos;
}

void write_literal(std::string& out, std::string_view text, size_t indent) {
  out += text.ends_with('\n') ? " |\n" : " |-\n";
  if (text.ends_with('\n')) text.remove_suffix(1);
  while (true) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    out += line.empty() ? "\n" : std::string(indent, ' ') + std::string(line) + "\n";
    if (end == std::string_view::npos) return;
    text = text.substr(end + 1);
  }
}

void write_flow(std::string& out, const Node& node) {
  if (node.kind == NodeKind::sequence) {
    out += '[';
    for (size_t i = 0; i < node.items.size(); ++i) {
      out += i > 0 ? ", " : "";
      write_flow(out, node.items[i]);
    }
    out += ']';
  } else if (node.kind == NodeKind::map) {
    out += '{';
    for (size_t i = 0; i < node.entries.size(); ++i) {
      const Entry& entry = node.entries[i];
      out += i > 0 ? ", " : "";
      out += (needs_quotes(entry.key) ? in_quotes(entry.key) : entry.key) + ": ";
      write_flow(out, entry.node());
    }
    out += '}';
  } else {
    out += scalar_text(node);
  }
}

void write_block(std::string& out, const Node& map, size_t indent) {
  for (const Entry& entry : map.entries) {
    const Node& value = entry.node();
    out += std::string(indent, ' ') + (needs_quotes(entry.key) ? in_quotes(entry.key) : entry.key) +
           ":";
    if (value.kind == NodeKind::map && !value.entries.empty()) {
      out += '\n';
      write_block(out, value, indent + 2);
    } else if (fits_literal_block(value)) {
      write_literal(out, value.scalar, indent + 2);
    } else {
      out += ' ';
      write_flow(out, value);
      out += '\n';
    }
  }
}

}  // namespace

std::string to_json(const Node& node) {
  std::string out;
  switch (node.kind) {
    case NodeKind::null:
      return "null";
    case NodeKind::scalar: {
      if (node.is_quoted) return in_quotes(node.scalar);
      if (auto flag = as_bool(node)) return *flag ? "true" : "false";
      if (auto whole = as_int(node)) return fmt::format("{}", *whole);
      if (auto number = as_double(node); number && std::isfinite(*number))
        return fmt::format("{}", *number);
      return in_quotes(node.scalar);
    }
    case NodeKind::sequence:
      for (const Node& item : node.items) out += (out.empty() ? "" : ",") + to_json(item);
      return "[" + out + "]";
    case NodeKind::map:
      for (const Entry& entry : node.entries)
        out += (out.empty() ? "" : ",") + in_quotes(entry.key) + ":" + to_json(entry.node());
      return "{" + out + "}";
  }
  return out;
}

std::string to_yaml(const Node& node) {
  std::string out;
  if (node.kind == NodeKind::map && !node.entries.empty()) {
    write_block(out, node, 0);
  } else {
    write_flow(out, node);
    out += '\n';
  }
  return out;
}

}  // namespace cohort::config
