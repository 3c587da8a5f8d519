/// Attributes, items and slices, as Jinja's immutable sandbox gives them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/text/template/characters.hpp"
#include "runtime/text/template/loop.hpp"
#include "runtime/text/template/printing.hpp"
#include "runtime/text/template/runtime.hpp"

namespace cohort::text::jinja {
namespace {

std::string object_name(const Value& x) {
  return x.is(Kind::none) ? "None" : fmt::format("{} object", type_name(x));
}

Value no_attribute(const Value& x, std::string_view name) {
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", object_name(x), name));
}

Value unsafe_attribute(const Value& x, std::string_view name) {
  return Value::undefined(
      fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(x)),
      "SecurityError");
}

bool is_mutator(const Value& x, std::string_view name) {
  constexpr std::array<std::string_view, 8> of_list{"append", "clear", "pop",    "reverse",
                                                    "insert", "sort",  "extend", "remove"};
  constexpr std::array<std::string_view, 5> of_dict{"clear", "pop", "popitem", "setdefault",
                                                    "update"};
  if (x.is(Kind::list)) return std::ranges::find(of_list, name) != of_list.end();
  return x.is(Kind::dict) && std::ranges::find(of_dict, name) != of_dict.end();
}

/// Whether every object of Python has an attribute of this name.
bool is_special_name(std::string_view name) {
  constexpr std::array<std::string_view, 24> names{
      "__class__",   "__delattr__", "__dir__",           "__doc__",         "__eq__",
      "__format__",  "__ge__",      "__getattribute__",  "__getstate__",    "__gt__",
      "__hash__",    "__init__",    "__init_subclass__", "__le__",          "__lt__",
      "__ne__",      "__new__",     "__reduce__",        "__reduce_ex__",   "__repr__",
      "__setattr__", "__sizeof__",  "__str__",           "__subclasshook__"};
  return std::ranges::find(names, name) != names.end();
}

/// Returns what Python's getattr finds on the object itself, or a missing value.
Value own_attribute(const Value& x, std::string_view name) {
  if (is_special_name(name) || is_mutator(x, name)) return unsafe_attribute(x, name);
  if (x.is(Kind::name_space)) {
    const Value* found = x.mutable_as<Namespace>().find(name);
    return found == nullptr ? Value() : *found;
  }
  return find_method(x, name);
}

const Value* dict_item(const Value& x, std::string_view name) {
  return x.is(Kind::dict) ? x.dict().find(name) : nullptr;
}

bool is_indexable(const Value& x) {
  return x.is_sequence() || x.is(Kind::text) || x.is(Kind::range);
}

Value element(Runtime& run, const Value& x, Integer index) {
  const auto size = static_cast<Integer>(length_of(x));
  if (index < 0) index += size;
  if (index < 0 || index >= size) return {};
  const auto i = static_cast<size_t>(index);
  if (x.is(Kind::range)) return Value::integer(x.as<Range>().at(index));
  if (x.is_sequence()) return x.items()[i];
  const auto& text = x.text();
  if (x.text_object().is_ascii())
    return make_text(run.budget, text.substr(i, 1), x.text_object().is_markup);
  run.budget.scan(text.size());
  const size_t begin = byte_of(text, i);
  const size_t end = begin + byte_of(std::string_view(text).substr(begin), 1);
  return make_text(run.budget, text.substr(begin, end - begin), x.text_object().is_markup);
}

}  // namespace

Value attribute_of(Runtime&, const Value& x, std::string_view name) {
  if (!is_special_name(name)) check_defined(x);
  if (x.is(Kind::loop)) {
    const Value value = x.mutable_as<Loop>().attribute(name);
    if (!value.is(Kind::missing)) return value;
  }
  Value value = own_attribute(x, name);
  if (!value.is(Kind::missing)) return value;
  if (const Value* item = dict_item(x, name)) return *item;
  return no_attribute(x, name);
}

Value item_of(Runtime& run, const Value& x, const Value& key) {
  check_defined(x);
  if (x.is(Kind::dict)) {
    const bool has_hash = !key.is(Kind::list) && !key.is(Kind::dict);
    if (const Value* item = has_hash ? x.dict().find(run.budget, key) : nullptr) return *item;
  } else if (is_indexable(x) && key.is_whole()) {
    Value value = element(run, x, key.whole());
    if (!value.is(Kind::missing)) return value;
  }
  if (key.is(Kind::text)) {
    if (x.is(Kind::loop)) return attribute_of(run, x, key.text());
    Value value = own_attribute(x, key.text());
    return value.is(Kind::missing) ? no_attribute(x, key.text()) : value;
  }
  return Value::undefined(
      fmt::format("{} has no element {}", object_name(x), to_repr(run.budget, key)));
}

namespace {

/// The bounds that Python gives a slice of `size` items.
struct SliceBounds {
  Integer start, stop, step;
  SliceBounds(const Value& first, const Value& last, const Value& by, Integer size) {
    step = by.is(Kind::none) ? 1 : part(by);
    if (step == 0) fail("ValueError", "slice step cannot be zero");
    const Integer least = step < 0 ? -1 : 0;
    const Integer most = step < 0 ? size - 1 : size;
    const auto clamp = [&](const Value& x) {
      Integer i = part(x);
      if (i < 0) i += size;
      return std::clamp(i, least, most);
    };
    start = first.is(Kind::none) ? (step < 0 ? most : least) : clamp(first);
    stop = last.is(Kind::none) ? (step < 0 ? least : most) : clamp(last);
  }
  static Integer part(const Value& x) {
    check_defined(x);
    if (x.is_whole()) return std::clamp<Integer>(x.whole(), -(Integer{1} << 62), Integer{1} << 62);
    fail("TypeError", "slice indices must be integers or None or have an __index__ method");
  }
  template <class F>
  void each(const F& f) const {
    for (Integer i = start; step > 0 ? i < stop : i > stop; i += step) f(static_cast<size_t>(i));
  }
};

std::string text_slice(Runtime& run, const Text& text, const SliceBounds& bounds) {
  const std::string_view all = text.bytes;
  run.budget.scan(all.size());
  if (bounds.step == 1) {
    if (bounds.start >= bounds.stop) return {};
    const auto count = static_cast<size_t>(bounds.stop - bounds.start);
    const auto start = static_cast<size_t>(bounds.start);
    if (text.is_ascii()) return std::string(all.substr(start, count));
    const auto rest = all.substr(byte_of(all, start));
    return std::string(rest.substr(0, byte_of(rest, count)));
  }
  std::vector<size_t> begins;
  if (!text.is_ascii())
    for (size_t i = 0; i < all.size(); ++i)
      if ((static_cast<unsigned char>(all[i]) & 0xC0) != 0x80) begins.push_back(i);
  begins.push_back(all.size());
  std::string out;
  bounds.each([&](size_t i) {
    run.budget.step();
    out += text.is_ascii() ? all.substr(i, 1) : all.substr(begins[i], begins[i + 1] - begins[i]);
  });
  return out;
}

}  // namespace

Value slice_of(Runtime& run, const Value& x, const Value& start, const Value& stop,
               const Value& step) {
  check_defined(x);
  if (!is_indexable(x))
    fail("TypeError", fmt::format("'{}' object is not subscriptable", type_name(x)));
  const SliceBounds bounds(start, stop, step, static_cast<Integer>(length_of(x)));
  if (x.is(Kind::text))
    return make_text(run.budget, text_slice(run, x.text_object(), bounds),
                     x.text_object().is_markup);
  if (x.is(Kind::range)) {
    const auto& range = x.as<Range>();
    return Value::of(Kind::range,
                     std::make_shared<Range>(range.at(bounds.start), range.at(bounds.stop),
                                             multiply(range.step, bounds.step)));
  }
  std::vector<Value> items;
  bounds.each([&](size_t i) {
    run.budget.step();
    items.push_back(x.items()[i]);
  });
  return x.is(Kind::list) ? make_list(run.budget, std::move(items))
                          : make_tuple(run.budget, std::move(items));
}

}  // namespace cohort::text::jinja
