/// Names of filters, and those on texts.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/text/template/characters.hpp"
#include "runtime/text/template/filter_tables.hpp"
#include "runtime/text/template/printing.hpp"
#include "runtime/text/template/splitting.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text::jinja {
namespace {

/// soft_str: a text as it is, anything else printed.
Value soft_text(Runtime& run, const Value& x) {
  return x.is(Kind::text) ? x : make_text(run.budget, to_text(run.budget, x));
}

/// Calls a method of str on the value as text.
Value text_method(Runtime& run, const Value& x, std::string_view name, const Arguments& arguments) {
  return find_text_method(name)(run, soft_text(run, x), arguments);
}

Value upper_filter(Runtime& run, const Value& x, const Arguments& a) {
  return text_method(run, x, "upper", a);
}
Value lower_filter(Runtime& run, const Value& x, const Arguments& a) {
  return text_method(run, x, "lower", a);
}
Value capitalize_filter(Runtime& run, const Value& x, const Arguments& a) {
  return text_method(run, x, "capitalize", a);
}
Value trim_filter(Runtime& run, const Value& x, const Arguments& a) {
  return text_method(run, x, "strip", a);
}

Value center_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("center", arguments, {"width"});
  return text_method(run, x, "center", {{Value::integer(bound.whole(0, 80))}, {}});
}

Value string_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("string", arguments, {});
  return soft_text(run, x);
}

Value title_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("title", arguments, {});
  const Value text = soft_text(run, x);
  run.budget.scan(text.text().size());
  std::string out;
  bool is_first = true;
  // A word begins after blanks, hyphens and opening brackets.
  const std::string_view all = text.text();
  std::string rest;
  const auto finish = [&] {
    out += to_case(rest, Case::lower);
    rest.clear();
  };
  for (size_t at = 0; at < all.size();) {
    const size_t begin = at;
    const char32_t c = next_character(all, at);
    const auto bytes = all.substr(begin, at - begin);
    const bool is_gap =
        is_blank(c) || std::u32string_view(U"-({[<").find(c) != std::u32string_view::npos;
    if (is_gap) {
      finish();
      out += bytes;
      is_first = true;
    } else if (is_first) {
      out += to_case(bytes, Case::upper);
      is_first = false;
    } else {
      rest += bytes;
    }
  }
  finish();
  return make_text(run.budget, std::move(out));
}

Value replace_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  return make_text(
      run.budget,
      replaced(run.budget, to_text(run.budget, x), to_text(run.budget, bound[0]),
               to_text(run.budget, bound[1]), bound.has_value(2) ? bound.whole(2, -1) : -1));
}

Value escape_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("escape", arguments, {});
  if (x.is(Kind::text) && x.text_object().is_markup) return x;
  const std::string text = to_text(run.budget, x);
  run.budget.scan(text.size());
  return make_text(run.budget, escape_markup(text), true);
}
Value force_escape(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("forceescape", arguments, {});
  return make_text(run.budget, escape_markup(to_text(run.budget, x)), true);
}
Value safe_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("safe", arguments, {});
  return make_text(run.budget, to_text(run.budget, x), true);
}

/// What html.unescape makes of the number in &#…; or nothing: no character of XML or HTML.
std::string numbered_character(uint32_t code) {
  constexpr std::u32string_view k_windows =  // 0x80 to 0x9F are taken for those of Windows-1252
      U"\u20AC\x81\u201A\u0192\u201E\u2026\u2020\u2021\u02C6\u2030\u0160\u2039\u0152\x8D\u017D\x8F"
      U"\x90\u2018\u2019\u201C\u201D\u2022\u2013\u2014\u02DC\u2122\u0161\u203A\u0153\x9D\u017E"
      U"\u0178";
  if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return "\xEF\xBF\xBD";
  if (code >= 0x80 && code < 0xA0) return to_utf8(k_windows[code - 0x80]);
  const bool is_none =
      (code < 0x20 && code != '\t' && code != '\n' && code != '\f' && code != '\r') ||
      code == 0x7F || (code >= 0xFDD0 && code < 0xFDF0) || (code & 0xFFFE) == 0xFFFE;
  return is_none ? "" : to_utf8(static_cast<char32_t>(code));
}

/// Reads the number behind "&#"; moves `at` behind it and its semicolon. Nothing: there is none.
std::optional<uint32_t> read_entity_number(std::string_view text, size_t& at) {
  const bool is_hex = at < text.size() && (text[at] | 0x20) == 'x';
  const std::string_view digits = is_hex ? "0123456789abcdefABCDEF" : "0123456789";
  const size_t begin = at + (is_hex ? 1 : 0);
  const size_t end = std::min(text.find_first_not_of(digits, begin), text.size());
  if (begin >= end) return std::nullopt;
  uint32_t code = 0;
  for (const char c : text.substr(begin, end - begin)) {
    const auto digit = static_cast<uint32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    code = std::min<uint32_t>(code * (is_hex ? 16 : 10) + digit, 0x110000);
  }
  at = end + (end < text.size() && text[end] == ';' ? 1 : 0);
  return code;
}

/// html.unescape, for numbers and the common names.
std::string without_entities(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> k_names[] = {
      {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos;", "'"}, {"amp", "&"}, {"nbsp", "\xC2\xA0"}};
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const std::string_view behind = text.substr(at + 1);
    if (text[at] != '&') {
      out += text[at++];
      continue;
    }
    if (size_t next = at + 2; behind.starts_with('#')) {
      if (const auto code = read_entity_number(text, next)) {
        out += numbered_character(*code);
        at = next;
        continue;
      }
    }
    const auto* name =
        std::ranges::find_if(k_names, [&](const auto& x) { return behind.starts_with(x.first); });
    if (name == std::end(k_names)) {
      out += text[at++];
      continue;
    }
    out += name->second;
    at += 1 + name->first.size();
    if (at < text.size() && text[at] == ';' && !name->first.ends_with(';')) ++at;
  }
  return out;
}

Value striptags_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("striptags", arguments, {});
  std::string text = to_text(run.budget, x);
  run.budget.scan(text.size());
  for (const auto& [open, close] :
       {std::pair<std::string_view, std::string_view>{"<!--", "-->"}, {"<", ">"}}) {
    std::string out;
    size_t at = 0;
    for (size_t begin = text.find(open); begin != std::string::npos; begin = text.find(open, at)) {
      const size_t end = text.find(close, begin);
      if (end == std::string::npos) break;
      out.append(text, at, begin - at);
      at = end + close.size();
    }
    text = out + text.substr(at);
  }
  std::string joined;
  for (const auto word : split_blanks(run.budget, text, -1, false)) {
    if (!joined.empty()) joined += ' ';
    joined += word;
  }
  run.budget.scan(joined.size());
  joined = without_entities(joined);
  return make_text(run.budget, std::move(joined));
}

Value indent_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("indent", arguments, {"width", "first", "blank"});
  check_defined(x);
  if (!x.is(Kind::text))
    fail("TypeError",
         fmt::format("unsupported operand type(s) for +=: '{}' and 'str'", type_name(x)));
  std::string indention;
  if (bound.has(0) && bound[0].is(Kind::text)) {
    indention = bound.text(0);
  } else {
    const Integer width = std::clamp<Integer>(bound.whole(0, 4), 0, Integer{1} << 32);
    run.budget.check_text(static_cast<size_t>(width));
    indention = std::string(static_cast<size_t>(width), ' ');
  }
  const bool indents_blank = bound.truth(2, false);
  const std::string text = x.text() + "\n";
  run.budget.scan(text.size());
  std::string out;
  bool is_first = true;
  for (const auto line : lines_of(run.budget, text, false)) {
    if (!is_first) out += '\n';
    const bool indents = is_first ? bound.truth(1, false) : indents_blank || !line.empty();
    if (indents) out += indention;
    out += line;
    is_first = false;
    run.budget.step(1 + (line.size() + indention.size()) / 1024);
    run.budget.check_text(out.size());
  }
  return make_text(run.budget, std::move(out), x.text_object().is_markup);
}

Value truncate_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const std::string end = bound.has(2) ? bound.text(2) : "...";
  const Integer length = bound.whole(0, 255);
  const Integer leeway = bound.has_value(3) ? bound.whole(3, 5) : 5;
  const auto end_length = static_cast<Integer>(character_count(end));
  if (length < end_length)
    fail("AssertionError", fmt::format("expected length >= {}, got {}", integer_text(end_length),
                                       integer_text(length)));
  if (leeway < 0) fail("AssertionError", "expected leeway >= 0");
  if (static_cast<Integer>(length_of(x)) <= add(length, leeway)) return x;
  if (!x.is(Kind::text)) fail("TypeError", "truncate: a text is required");
  const Value& text = x;
  const Value head =
      slice_of(run, text, Value::none(), Value::integer(length - end_length), Value::none());
  if (bound.truth(1, false)) return make_text(run.budget, head.text() + end);
  return make_text(run.budget,
                   std::string(split_at(run.budget, head.text(), " ", 1, true).front()) + end);
}

Value wordcount_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("wordcount", arguments, {});
  const Value text = soft_text(run, x);
  run.budget.scan(text.text().size());
  Integer words = 0;
  bool is_inside = false;
  for (size_t at = 0; at < text.text().size();) {
    const bool is_word_now = is_word(next_character(text.text(), at));
    if (is_word_now && !is_inside) ++words;
    is_inside = is_word_now;
  }
  return Value::integer(words);
}

Value format_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty())
    fail("FilterArgumentError", "can't handle positional and keyword arguments at the same time");
  Value values;
  if (arguments.named.empty()) {
    values = make_tuple(run.budget, arguments.positional);
  } else {
    Dict::Entries entries;
    for (const auto& [name, value] : arguments.named)
      entries.emplace_back(make_text(run.budget, name), value);
    values = make_dict(run.budget, std::move(entries));
  }
  return modulo_values(run, soft_text(run, x), values);
}

Value tojson_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonLayout layout;
  layout.ensures_ascii = bound.truth(0, false);
  if (bound.has_value(1)) {
    layout.item_separator = ",";
    if (bound[1].is(Kind::text)) {
      layout.indent = bound.text(1);
    } else {
      const Integer width = std::clamp<Integer>(bound.whole(1, 0), 0, Integer{1} << 40);
      run.budget.check_text(static_cast<size_t>(width));
      run.budget.scan(static_cast<size_t>(width));
      layout.indent = std::string(static_cast<size_t>(width), ' ');
    }
  }
  if (bound.has_value(2)) {
    const auto parts = items_of(run, bound[2]);
    if (parts.size() != 2 || !parts[0].is(Kind::text) || !parts[1].is(Kind::text))
      fail("ValueError", "tojson: separators are two texts, (item, key)");
    layout.item_separator = parts[0].text();
    layout.key_separator = parts[1].text();
  }
  layout.sorts_keys = bound.truth(3, false);
  return make_text(run.budget, to_json(run.budget, x, layout));
}

std::string url_quoted(Budget& budget, std::string_view text, bool is_query) {
  std::string out;
  budget.scan(text.size());
  budget.scan(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
        std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !is_query);
    if (is_plain)
      out += c;
    else if (is_query && c == ' ')
      out += '+';
    else
      out += {'%', "0123456789ABCDEF"[byte >> 4], "0123456789ABCDEF"[byte & 15]};
  }
  return out;
}

Value urlencode_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("urlencode", arguments, {});
  if (x.is(Kind::text) || !is_iterable(x))
    return make_text(run.budget, url_quoted(run.budget, to_text(run.budget, x), false));
  std::string out;
  Dict::Entries entries;
  if (x.is(Kind::dict))
    entries = x.dict().entries;
  else
    for (const auto& item : items_of(run, x)) {
      const auto pair = items_of(run, item);
      if (pair.size() != 2) fail("ValueError", "urlencode: expected pairs");
      entries.emplace_back(pair[0], pair[1]);
    }
  for (const auto& [key, value] : entries) {
    if (!out.empty()) out += '&';
    out += url_quoted(run.budget, to_text(run.budget, key), true) + "=" +
           url_quoted(run.budget, to_text(run.budget, value), true);
    run.budget.step(1 + out.size() / 1024);
    run.budget.check_text(out.size());
  }
  return make_text(run.budget, std::move(out));
}

Value refused_filter(Runtime&, const Value&, const Arguments&) {
  fail("TemplateError",
       "the filters pprint, random, urlize, wordwrap and xmlattr are not supported in a chat "
       "template");
}

constexpr FilterRow k_text_filters[] = {{"capitalize", capitalize_filter},
                                        {"center", center_filter},
                                        {"e", escape_filter},
                                        {"escape", escape_filter},
                                        {"forceescape", force_escape},
                                        {"format", format_filter},
                                        {"indent", indent_filter},
                                        {"lower", lower_filter},
                                        {"pprint", refused_filter},
                                        {"random", refused_filter},
                                        {"replace", replace_filter},
                                        {"safe", safe_filter},
                                        {"string", string_filter},
                                        {"striptags", striptags_filter},
                                        {"title", title_filter},
                                        {"tojson", tojson_filter},
                                        {"trim", trim_filter},
                                        {"truncate", truncate_filter},
                                        {"upper", upper_filter},
                                        {"urlencode", urlencode_filter},
                                        {"urlize", refused_filter},
                                        {"wordcount", wordcount_filter},
                                        {"wordwrap", refused_filter},
                                        {"xmlattr", refused_filter}};

}  // namespace

std::span<const FilterRow> text_filters() { return k_text_filters; }

const Filter* find_filter(std::string_view name) {
  for (const auto table :
       {text_filters(), sequence_filters(), selection_filters(), number_filters()})
    for (const auto& row : table)
      if (row.first == name) return &row.second;
  return nullptr;
}

}  // namespace cohort::text::jinja
