#include "runtime/tasks/row_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace cohort::tasks {
namespace {

constexpr int k_depth_max = 64;            // dump() and the destructor recurse
constexpr size_t k_parser_text_max = 160;  // [bytes] of the parser's words in a reason

bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool is_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_text) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        is_text = false;
    } else if (c == '"') {
      is_text = true;
    } else if ((c == '[' || c == '{') && ++depth > k_depth_max) {
      return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

/// The parser's words without its own name and line number, in printable ASCII.
std::string parser_text(std::string_view text) {
  constexpr std::string_view k_lead = "parse error at line 1, ";
  if (size_t at = text.find(k_lead); at != std::string_view::npos)
    text.remove_prefix(at + k_lead.size());
  std::string result(text.substr(0, k_parser_text_max));
  std::ranges::replace_if(
      result, [](char c) { return c < ' ' || c > '~'; }, '?');
  return result;
}

}  // namespace

std::string kind_of(const RowJson& value) {
  constexpr std::array k_kinds = {"null", "an object", "a list", "a text", "true or false"};
  auto type = static_cast<size_t>(value.type());  // the numbers follow these
  return type < k_kinds.size() ? k_kinds[type] : "a number";
}

Expected<RowJson> json_of(std::string_view text) {
  if (is_too_deep(text)) return bad(fmt::format("nested deeper than {} levels", k_depth_max));
  try {
    return RowJson::parse(text);
  } catch (const RowJson::exception& e) {
    return bad("no valid JSON: " + parser_text(e.what()));
  }
}

Expected<RowJson> parse_row(std::string_view line) {
  COHORT_ASSIGN(RowJson row, json_of(line));
  if (!row.is_object())
    return bad(fmt::format("{}: one JSON object per line is expected", kind_of(row)));
  return row;
}

const RowJson* column(const RowJson& row, const std::string& name) {
  if (auto found = row.find(name); found != row.end()) return found->is_null() ? nullptr : &*found;
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return nullptr;
  auto outer = row.find(name.substr(0, dot));
  const bool is_inside = outer != row.end() && outer->is_object();
  return is_inside ? column(*outer, name.substr(dot + 1)) : nullptr;
}

std::string names_of_columns(const RowJson& row) {
  constexpr size_t k_shown = 8;
  std::string names;
  for (size_t shown = 0; const auto& [name, value] : row.items()) {
    if (++shown > k_shown) return names + ", …";
    names += (shown > 1 ? ", " : "") + name;
  }
  return names.empty() ? "nothing" : names;
}

}  // namespace cohort::tasks
