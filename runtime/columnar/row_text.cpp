#include "runtime/columnar/row_text.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <iterator>

#include "runtime/text/unicode.hpp"

namespace cohort::columnar {
namespace {

void append_quoted(std::string& out, std::string_view text) {
  static constexpr char k_digits[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20) {
      out += "\\u00";
      out += k_digits[byte >> 4];
      out += k_digits[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_real(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  const size_t from = out.size();
  fmt::format_to(std::back_inserter(out), "{}", value);
  if (out.find_first_of(".e", from) == std::string::npos) out += ".0";
}

class Assembler {
 public:
  Assembler(std::vector<ColumnCursor>& columns, size_t bytes_max, std::string& text)
      : columns_(columns), text_(text), bytes_max_(text.size() + bytes_max) {}

  Expected<void> add(const SchemaNode& node) {
    COHORT_ASSIGN(const bool is_there, is_there_at(node, node.there));
    if (!is_there) {
      if (!node.is_optional) return broken(node);
      text_ += "null";
      return skip(node);
    }
    switch (node.shape) {
      case Shape::object:
        return add_object(node);
      case Shape::list:
      case Shape::map:
        return add_elements(node);
      case Shape::value:
        break;
    }
    return add_value(node);
  }

 private:
  static Error broken(const SchemaNode& node) {
    return {Errc::corrupt, fmt::format("column {}: levels of its columns contradict", node.path)};
  }

  static Error at(const SchemaNode& leaf, const Error& error) {
    return error.with_context("column " + leaf.path);
  }

  /// Whether the entries of all columns below `node` reach definition level `level`.
  Expected<bool> is_there_at(const SchemaNode& node, int32_t level) {
    bool is_there = false;
    for (size_t i = node.first_leaf; i < node.end_leaf; ++i) {
      auto has_entry = columns_[i].has_entry();
      if (!has_entry) return has_entry.error();
      if (!*has_entry) return broken(node);
      const bool is_reached = columns_[i].definition() >= level;
      if (i == node.first_leaf)
        is_there = is_reached;
      else if (is_reached != is_there)
        return broken(node);
    }
    return is_there;
  }

  /// Takes the one entry that says "not there" in every column below `node`.
  Expected<void> skip(const SchemaNode& node) {
    Value unused;
    for (size_t i = node.first_leaf; i < node.end_leaf; ++i) {
      COHORT_TRY(columns_[i].take(unused));
    }
    return {};
  }

  Expected<void> add_object(const SchemaNode& node) {
    text_ += '{';
    for (const SchemaNode& child : node.children) {
      if (&child != &node.children.front()) text_ += ',';
      append_quoted(text_, child.name);
      text_ += ':';
      COHORT_TRY(add(child));
    }
    text_ += '}';
    return {};
  }

  /// Whether every column below goes on with another element of this list.
  Expected<bool> has_more(const SchemaNode& node) {
    bool has_more = false;
    for (size_t i = node.first_leaf; i < node.end_leaf; ++i) {
      auto has_entry = columns_[i].has_entry();
      if (!has_entry) return has_entry.error();
      const bool goes_on = *has_entry && columns_[i].repetition() >= node.repetition;
      if (goes_on && columns_[i].repetition() > node.repetition) return broken(node);
      if (i == node.first_leaf)
        has_more = goes_on;
      else if (goes_on != has_more)
        return broken(node);
    }
    return has_more;
  }

  Expected<void> add_elements(const SchemaNode& node) {
    const bool is_map = node.shape == Shape::map;
    text_ += is_map ? '{' : '[';
    COHORT_ASSIGN(bool has_element, is_there_at(node, node.definition));
    if (!has_element) COHORT_TRY(skip(node));
    while (has_element) {
      COHORT_TRY(add(node.children.front()));
      if (is_map) {
        text_ += ':';
        COHORT_TRY(add(node.children.back()));
      }
      if (text_.size() > bytes_max_) return too_long(node);
      COHORT_ASSIGN(has_element, has_more(node));
      if (has_element) text_ += ',';
    }
    text_ += is_map ? '}' : ']';
    return {};
  }

  Error too_long(const SchemaNode& node) const {
    return {Errc::capacity,
            fmt::format("column {}: the row has over {} bytes", node.path, bytes_max_)};
  }

  Expected<void> add_value(const SchemaNode& leaf) {
    Value value;
    COHORT_TRY(columns_[leaf.first_leaf].take(value));
    const auto number = static_cast<int64_t>(value.bits);
    switch (leaf.type) {
      case Physical::boolean:
        text_ += value.bits != 0 ? "true" : "false";
        return {};
      case Physical::int32:
      case Physical::int64:
        if (leaf.meaning != Meaning::unsigned_number)
          fmt::format_to(std::back_inserter(text_), "{}", number);
        else if (leaf.type == Physical::int32)
          fmt::format_to(std::back_inserter(text_), "{}", static_cast<uint32_t>(value.bits));
        else
          fmt::format_to(std::back_inserter(text_), "{}", value.bits);
        return {};
      case Physical::real32:
        append_real(text_, std::bit_cast<float>(static_cast<uint32_t>(value.bits)));
        return {};
      case Physical::real64:
        append_real(text_, std::bit_cast<double>(value.bits));
        return {};
      default:
        break;
    }
    if (!text::is_valid_utf8(value.text))
      return at(leaf, {Errc::unsupported, "its bytes are no UTF-8 text; only text is read"});
    append_quoted(text_, value.text);
    return text_.size() > bytes_max_ ? Expected<void>(too_long(leaf)) : Expected<void>();
  }

  std::vector<ColumnCursor>& columns_;
  std::string& text_;
  size_t bytes_max_;
};

}  // namespace

Expected<void> append_row(const SchemaNode& root, std::vector<ColumnCursor>& columns,
                          size_t bytes_max, std::string& text) {
  for (ColumnCursor& column : columns) {
    COHORT_ASSIGN(const bool has_entry, column.has_entry());
    if (!has_entry || column.repetition() != 0)
      return Error{Errc::corrupt, "its columns have not the same rows"};
  }
  return Assembler(columns, bytes_max, text).add(root);
}

}  // namespace cohort::columnar
