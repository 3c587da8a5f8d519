/// Methods of str.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/text/template/characters.hpp"
#include "runtime/text/template/format_spec.hpp"
#include "runtime/text/template/printing.hpp"
#include "runtime/text/template/runtime.hpp"
#include "runtime/text/template/splitting.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text::jinja {
namespace {

Value same_kind(Runtime& run, const Value& self, std::string text) {
  return make_text(run.budget, std::move(text), self.text_object().is_markup);
}

/// A text argument; for a markup text, escaped.
std::string part_of(const Value& self, const Value& x) {
  const bool escapes = self.text_object().is_markup && !x.text_object().is_markup;
  return escapes ? escape_markup(x.text()) : x.text();
}

template <bool t_left, bool t_right>
Value strip(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("strip", arguments, {"chars"});
  run.budget.scan(self.text().size() * (bound.has_value(0) ? 1 + bound.text(0).size() / 64 : 1));
  const auto text = bound.has_value(0) ? strip_set(self.text(), bound.text(0), t_left, t_right)
                                       : strip_blanks(self.text(), t_left, t_right);
  return same_kind(run, self, std::string(text));
}

template <Case t_case>
Value change_case(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("case", arguments, {});
  run.budget.scan(self.text().size());
  return same_kind(run, self, to_case(self.text(), t_case));
}

template <std::string (*t_change)(std::string_view)>
Value change(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("case", arguments, {});
  run.budget.scan(self.text().size());
  return same_kind(run, self, t_change(self.text()));
}

template <CharacterClass t_class>
Value all_are(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("is", arguments, {});
  const auto& text = self.text();
  run.budget.scan(text.size());
  for (size_t at = 0; at < text.size();)
    if (!is_in(next_character(text, at), t_class)) return Value::boolean(false);
  return Value::boolean(!text.empty() || t_class == CharacterClass::printable);
}

/// islower and isupper: no letter of the other case, and one at least.
template <CharacterClass t_class, CharacterClass t_other>
Value is_cased_as(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("is", arguments, {});
  const auto& text = self.text();
  run.budget.scan(text.size());
  bool has_one = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (is_in(c, t_other)) return Value::boolean(false);
    has_one = has_one || is_in(c, t_class);
  }
  return Value::boolean(has_one);
}

Value isspace_method(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("isspace", arguments, {});
  run.budget.scan(self.text().size());
  return Value::boolean(!self.text().empty() && strip_blanks(self.text(), true, false).empty());
}
Value isascii_method(Runtime&, const Value& self, const Arguments& arguments) {
  const Bound bound("isascii", arguments, {});
  return Value::boolean(self.text_object().is_ascii());
}
Value isidentifier_method(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("isidentifier", arguments, {});
  run.budget.scan(self.text().size());
  return Value::boolean(is_identifier(self.text()));
}
Value istitle_method(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("istitle", arguments, {});
  run.budget.scan(self.text().size());
  return Value::boolean(is_title(self.text()));
}

/// The part [start, end) that find, count, startswith … look at; nothing if start is behind it.
struct Window {
  std::string_view text;
  size_t begin = 0;  // [bytes]
  bool is_valid = true;

  Window(Runtime& run, const Value& self, const Bound& bound) : text(self.text()) {
    if (!bound.has(1) && !bound.has(2)) return;
    run.budget.scan(text.size());
    const auto size = static_cast<Integer>(self.text_object().length);
    const auto place = [&](size_t i, Integer otherwise) {
      Integer x = bound.has_value(i) ? index_value(bound[i]) : otherwise;
      if (x < 0) x = std::max<Integer>(0, x + size);
      return x;
    };
    const Integer start = place(1, 0);
    const Integer end = std::min(place(2, size), size);
    is_valid = start <= end;
    if (!is_valid) return;
    begin = byte_of(text, static_cast<size_t>(start));
    text = text.substr(begin, byte_of(text.substr(begin), static_cast<size_t>(end - start)));
  }
};

template <bool t_from_right, bool t_raises>
Value find_in(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("find", arguments, {"sub", "start", "end"}, 1);
  run.budget.scan(self.text().size());
  const Window window(run, self, bound);
  const size_t at = !window.is_valid ? std::string_view::npos
                    : t_from_right   ? find_last_part(window.text, bound.text(0))
                                     : find_part(window.text, bound.text(0));
  if (at != std::string_view::npos)
    return Value::integer(static_cast<Integer>(
        character_count(std::string_view(self.text()).substr(0, window.begin + at))));
  if (t_raises) fail("ValueError", "substring not found");
  return Value::integer(-1);
}

Value count_method(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"sub", "start", "end"}, 1);
  run.budget.scan(self.text().size());
  const Window window(run, self, bound);
  const auto& sub = bound.text(0);
  if (!window.is_valid) return Value::integer(0);
  if (sub.empty()) return Value::integer(static_cast<Integer>(character_count(window.text)) + 1);
  Integer found = 0;
  for (size_t at = find_part(window.text, sub); at != std::string_view::npos;
       at = find_part(window.text, sub, at + sub.size()))
    ++found;
  return Value::integer(found);
}

template <bool t_at_end>
Value has_affix(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound(t_at_end ? "endswith" : "startswith", arguments, {"prefix", "start", "end"}, 1);
  const Window window(run, self, bound);
  const auto matches = [&](const Value& affix) {
    check_defined(affix);
    if (!affix.is(Kind::text))
      fail("TypeError", fmt::format("{} first arg must be str or a tuple of str, not {}",
                                    t_at_end ? "endswith" : "startswith", type_name(affix)));
    return window.is_valid &&
           (t_at_end ? window.text.ends_with(affix.text()) : window.text.starts_with(affix.text()));
  };
  if (!bound[0].is(Kind::tuple)) return Value::boolean(matches(bound[0]));
  return Value::boolean(std::ranges::any_of(bound[0].items(), matches));
}

template <bool t_at_end>
Value remove_affix(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("removeprefix", arguments, {"affix"}, 1);
  std::string_view text = self.text();
  const auto& affix = bound.text(0);
  if (t_at_end && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!t_at_end && text.starts_with(affix)) text.remove_prefix(affix.size());
  return same_kind(run, self, std::string(text));
}

Value replace_method(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
  bound.text(1);
  return same_kind(run, self,
                   replaced(run.budget, self.text(), bound.text(0), part_of(self, bound[1]),
                            bound.whole(2, -1)));
}

Value join_method(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("join", arguments, {"iterable"}, 1);
  Items items(run, bound[0]);
  std::string all;
  bool is_first = true;
  size_t index = 0;
  for (Value item; items.next(item); ++index) {
    if (!item.is(Kind::text))
      fail("TypeError", fmt::format("sequence item {}: expected str instance, {} found", index,
                                    type_name(item)));
    if (!is_first) all += self.text();
    is_first = false;
    all += part_of(self, item);
    run.budget.step(1 + item.text().size() / 1024);
    run.budget.check_text(all.size());
  }
  return same_kind(run, self, std::move(all));
}

Value list_of_texts(Runtime& run, const Value& self, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  run.budget.check_room(parts.size(), sizeof(Value));
  items.reserve(parts.size());
  for (const auto part : parts) items.push_back(same_kind(run, self, std::string(part)));
  return make_list(run.budget, std::move(items));
}

template <bool t_from_right>
Value split(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("split", arguments, {"sep", "maxsplit"});
  const Integer most = bound.whole(1, -1);
  if (!bound.has_value(0))
    return list_of_texts(run, self, split_blanks(run.budget, self.text(), most, t_from_right));
  if (bound.text(0).empty()) fail("ValueError", "empty separator");
  return list_of_texts(run, self,
                       split_at(run.budget, self.text(), bound.text(0), most, t_from_right));
}

Value splitlines_method(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("splitlines", arguments, {"keepends"});
  return list_of_texts(run, self, lines_of(run.budget, self.text(), bound.truth(0, false)));
}

template <bool t_from_right>
Value partition(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("partition", arguments, {"sep"}, 1);
  const auto& text = self.text();
  const auto& separator = bound.text(0);
  if (separator.empty()) fail("ValueError", "empty separator");
  run.budget.scan(text.size());
  const size_t at = t_from_right ? find_last_part(text, separator) : find_part(text, separator);
  const auto part = [&](std::string x) { return same_kind(run, self, std::move(x)); };
  if (at == std::string::npos)
    return t_from_right ? make_tuple(run.budget, {part(""), part(""), self})
                        : make_tuple(run.budget, {self, part(""), part("")});
  return make_tuple(run.budget, {part(text.substr(0, at)), part(separator),
                                 part(text.substr(at + separator.size()))});
}

template <char t_align>
Value justify(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("ljust", arguments, {"width", "fillchar"}, 1);
  FormatSpec spec;
  spec.align = t_align;
  const Integer width = bound.whole(0, 0);
  if (width > Integer{1} << 40) run.budget.check_text(SIZE_MAX);
  spec.width = width > 0 ? static_cast<size_t>(width) : 0;
  run.budget.check_text(spec.width);
  run.budget.scan(spec.width);
  if (bound.has(1)) {
    bound.text(1);
    if (bound[1].text_object().length != 1)
      fail("TypeError", "The fill character must be exactly one character long");
    spec.fill = bound.text(1);
  }
  if (t_align != '^') return same_kind(run, self, padded(self.text(), spec, t_align));
  // str.center puts the odd blank to the left where the width is odd.
  const size_t length = self.text_object().length;
  if (length >= spec.width) return self;
  const size_t missing = spec.width - length;
  const size_t left = missing / 2 + (missing & spec.width & 1);
  std::string all;
  for (size_t i = 0; i < left; ++i) all += spec.fill;
  all += self.text();
  for (size_t i = left; i < missing; ++i) all += spec.fill;
  return same_kind(run, self, std::move(all));
}

Value zfill_method(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("zfill", arguments, {"width"}, 1);
  const Integer width = std::min<Integer>(bound.whole(0, 0), Integer{1} << 40);
  const auto& text = self.text();
  const auto length = static_cast<Integer>(self.text_object().length);
  if (width <= length) return self;
  const auto zeros = static_cast<size_t>(width - length);
  run.budget.check_text(text.size() + zeros);
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  return same_kind(run, self, text.substr(0, sign) + std::string(zeros, '0') + text.substr(sign));
}

constexpr Integer k_blanks_max = Integer{1} << 40;  // more than any text may have

Value expandtabs_method(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("expandtabs", arguments, {"tabsize"});
  const Integer size = bound.whole(0, 8);
  std::string out;
  Integer column = 0;
  for (const char c : self.text()) {
    if (c == '\t') {
      const Integer blanks = size > 0 ? size - column % size : 0;
      run.budget.check_text(out.size() + static_cast<size_t>(std::min(blanks, k_blanks_max)));
      out.append(static_cast<size_t>(blanks), ' ');
      column += blanks;
      run.budget.step(1 + static_cast<size_t>(blanks) / 64);
    } else {
      out += c;
      if (!is_continuation(c)) ++column;
      if (c == '\n' || c == '\r') column = 0;
    }
    run.budget.check_text(out.size());
  }
  return same_kind(run, self, std::move(out));
}

Value format_method(Runtime& run, const Value& self, const Arguments& arguments) {
  return same_kind(run, self, brace_format(run, self, arguments));
}
Value format_map_method(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("format_map", arguments, {"mapping"}, 1);
  if (!bound[0].is(Kind::dict)) fail("TypeError", "format_map() argument must be a mapping");
  Arguments named;
  for (const auto& [key, value] : bound[0].dict().entries)
    if (key.is(Kind::text)) named.named.emplace_back(key.text(), value);
  return same_kind(run, self, brace_format(run, self, named));
}

Value refused_method(Runtime&, const Value&, const Arguments&) {
  fail("TypeError", "this method of str is not supported in a chat template");
}

using C = CharacterClass;
constexpr std::array<std::pair<std::string_view, Native>, 46> k_text_methods{{
    {"capitalize", change<capitalized>},
    {"casefold", change_case<Case::fold>},
    {"center", justify<'^'>},
    {"count", count_method},
    {"encode", refused_method},
    {"endswith", has_affix<true>},
    {"expandtabs", expandtabs_method},
    {"find", find_in<false, false>},
    {"format", format_method},
    {"format_map", format_map_method},
    {"index", find_in<false, true>},
    {"isalnum", all_are<C::alnum>},
    {"isalpha", all_are<C::alpha>},
    {"isascii", isascii_method},
    {"isdecimal", all_are<C::decimal>},
    {"isdigit", all_are<C::digit>},
    {"isidentifier", isidentifier_method},
    {"islower", is_cased_as<C::lower, C::upper>},
    {"isnumeric", all_are<C::numeric>},
    {"isprintable", all_are<C::printable>},
    {"isspace", isspace_method},
    {"istitle", istitle_method},
    {"isupper", is_cased_as<C::upper, C::lower>},
    {"join", join_method},
    {"ljust", justify<'<'>},
    {"lower", change_case<Case::lower>},
    {"lstrip", strip<true, false>},
    {"maketrans", refused_method},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace_method},
    {"rfind", find_in<true, false>},
    {"rindex", find_in<true, true>},
    {"rjust", justify<'>'>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"splitlines", splitlines_method},
    {"startswith", has_affix<false>},
    {"strip", strip<true, true>},
    {"swapcase", change<swapped_case>},
    {"title", change<title_words>},
    {"upper", change_case<Case::upper>},
    {"zfill", zfill_method},
}};

}  // namespace

Native find_text_method(std::string_view name) {
  for (const auto& [known, native] : k_text_methods)
    if (known == name) return native;
  if (name == "translate") return refused_method;
  return nullptr;
}

}  // namespace cohort::text::jinja
