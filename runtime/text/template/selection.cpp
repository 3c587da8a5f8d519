/// Filters that take other filters and tests, and the tests.
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "runtime/text/template/filter_tables.hpp"
#include "runtime/text/template/printing.hpp"

namespace cohort::text::jinja {
namespace {

/// An iterator of what `each` gives for the items.
Value lazily(Runtime& run, const Value& x,
             const std::function<void(std::vector<Value>&, const Value&)>& each) {
  return make_lazy(run, [&](std::vector<Value>& out) {
    Items items(run, x);
    for (Value item; items.next(item);) each(out, item);
  });
}

Arguments rest_of(const Arguments& arguments, size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(count),
                         arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

const std::string& name_argument(const Value& x) {
  if (!x.is(Kind::text)) fail("TypeError", "the name of a filter or test must be a text");
  return x.text();
}

Value map_attribute(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("map", arguments, {"attribute", "default"}, 1);
  const AttributeReader reader(run, bound[0]);
  return lazily(
      run, x, [&](auto& out, const Value& item) { out.push_back(reader.read_or(item, bound[1])); });
}

Value map_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  bool has_attribute = false;
  for (const auto& [name, value] : arguments.named)
    has_attribute = has_attribute || name == "attribute";
  if (!is_true(x)) return make_iterator(run.budget, "generator", {});
  if (arguments.positional.empty() && has_attribute) return map_attribute(run, x, arguments);
  return lazily(run, x, [&](auto& out, const Value& item) {
    if (arguments.positional.empty()) fail("FilterArgumentError", "map requires a filter argument");
    const auto& name = name_argument(arguments.positional[0]);
    const Filter* filter = find_filter(name);
    if (filter == nullptr) fail("TemplateRuntimeError", fmt::format("No filter named '{}'.", name));
    out.push_back((*filter)(run, item, rest_of(arguments, 1)));
  });
}

template <bool t_keeps, bool t_has_attribute>
Value select_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  if (!is_true(x)) return make_iterator(run.budget, "generator", {});
  const size_t offset = t_has_attribute ? 1 : 0;
  return lazily(run, x, [&](auto& out, const Value& item) {
    if (arguments.positional.size() < offset)
      fail("FilterArgumentError", "Missing parameter for attribute name");
    const Value part =
        t_has_attribute ? AttributeReader(run, arguments.positional[0]).read(item) : item;
    bool passes = false;
    if (arguments.positional.size() > offset) {
      const auto& name = name_argument(arguments.positional[offset]);
      const Test* test = find_test(name);
      if (test == nullptr) fail("TemplateRuntimeError", fmt::format("No test named '{}'.", name));
      passes = (*test)(run, part, rest_of(arguments, offset + 1));
    } else {
      passes = is_true(part);
    }
    if (passes == t_keeps) out.push_back(item);
  });
}

constexpr FilterRow k_selection_filters[] = {{"map", map_filter},
                                             {"reject", select_filter<false, false>},
                                             {"rejectattr", select_filter<false, true>},
                                             {"select", select_filter<true, false>},
                                             {"selectattr", select_filter<true, true>}};

template <bool (*t_is)(const Value&)>
bool plain_test(Runtime&, const Value& x, const Arguments& arguments) {
  const Bound bound("test", arguments, {});
  return t_is(x);
}
template <bool (*t_compare)(Runtime&, const Value&, const Value&)>
bool binary_test(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("test", arguments, {"other"}, 1);
  return t_compare(run, x, bound[0]);
}

bool is_same_object(Runtime&, const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  if (a.is_whole()) return a.whole() == b.whole();
  if (a.is(Kind::real)) return false;
  if (a.is(Kind::text)) return a.text() == b.text();
  return a.object() == b.object();
}

template <int t_rest>
bool is_rest_of_two(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("test", arguments, {});
  check_defined(x);
  return is_equal(run.budget, modulo_values(run, x, Value::integer(2)), Value::integer(t_rest));
}

bool is_sequence_value(const Value& x) {
  switch (x.kind()) {
    case Kind::text:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
    case Kind::undefined:
      return true;
    default:
      return false;
  }
}

template <bool t_is_upper>
bool has_case(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("test", arguments, {});
  const Value text = make_text(run.budget, to_text(run.budget, x));
  return find_text_method(t_is_upper ? "isupper" : "islower")(run, text, {}).boolean_value();
}

template <class T, const T* (*t_find)(std::string_view)>
bool is_name(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("test", arguments, {});
  hash_of(run.budget, x);  // as Python looks it up
  return x.is(Kind::text) && t_find(x.text()) != nullptr;
}

using V = const Value&;
using R = Runtime&;
constexpr std::pair<std::string_view, Test> k_tests[] = {
    {"defined", plain_test<[](V x) { return !x.is(Kind::undefined); }>},
    {"undefined", plain_test<[](V x) { return x.is(Kind::undefined); }>},
    {"none", plain_test<[](V x) { return x.is(Kind::none); }>},
    {"boolean", plain_test<[](V x) { return x.is(Kind::boolean); }>},
    {"true", plain_test<[](V x) { return x.is(Kind::boolean) && x.boolean_value(); }>},
    {"false", plain_test<[](V x) { return x.is(Kind::boolean) && !x.boolean_value(); }>},
    {"integer", plain_test<[](V x) { return x.is(Kind::integer); }>},
    {"float", plain_test<[](V x) { return x.is(Kind::real); }>},
    {"number", plain_test<[](V x) { return x.is_number(); }>},
    {"string", plain_test<[](V x) { return x.is(Kind::text); }>},
    {"mapping", plain_test<[](V x) { return x.is(Kind::dict); }>},
    {"sequence", plain_test<is_sequence_value>},
    {"iterable", plain_test<[](V x) { return is_iterable(x) || x.is(Kind::loop); }>},
    {"callable",
     plain_test<[](V x) { return x.is_callable() || x.is(Kind::loop) || x.is(Kind::undefined); }>},
    {"escaped", plain_test<[](V x) { return x.is(Kind::text) && x.text_object().is_markup; }>},
    {"lower", has_case<false>},
    {"upper", has_case<true>},
    {"odd", is_rest_of_two<1>},
    {"even", is_rest_of_two<0>},
    {"divisibleby", binary_test<[](R run, V a, V b) {
       check_defined(a);
       check_defined(b);
       return is_equal(run.budget, modulo_values(run, a, b), Value::integer(0));
     }>},
    {"sameas", binary_test<is_same_object>},
    {"in", binary_test<[](R run, V a, V b) { return contains(run, b, a); }>},
    {"eq", binary_test<[](R run, V a, V b) { return is_equal(run.budget, a, b); }>},
    {"equalto", binary_test<[](R run, V a, V b) { return is_equal(run.budget, a, b); }>},
    {"==", binary_test<[](R run, V a, V b) { return is_equal(run.budget, a, b); }>},
    {"ne", binary_test<[](R run, V a, V b) { return !is_equal(run.budget, a, b); }>},
    {"!=", binary_test<[](R run, V a, V b) { return !is_equal(run.budget, a, b); }>},
    {"lt", binary_test<[](R run, V a, V b) { return is_less(run.budget, a, b, "<"); }>},
    {"lessthan", binary_test<[](R run, V a, V b) { return is_less(run.budget, a, b, "<"); }>},
    {"<", binary_test<[](R run, V a, V b) { return is_less(run.budget, a, b, "<"); }>},
    {"gt", binary_test<[](R run, V a, V b) { return is_less(run.budget, b, a, ">"); }>},
    {"greaterthan", binary_test<[](R run, V a, V b) { return is_less(run.budget, b, a, ">"); }>},
    {">", binary_test<[](R run, V a, V b) { return is_less(run.budget, b, a, ">"); }>},
    {"le", binary_test<[](R run, V a, V b) {
       return is_less(run.budget, a, b, "<=") || is_equal(run.budget, a, b);
     }>},
    {"<=", binary_test<[](R run, V a, V b) {
       return is_less(run.budget, a, b, "<=") || is_equal(run.budget, a, b);
     }>},
    {"ge", binary_test<[](R run, V a, V b) {
       return is_less(run.budget, b, a, ">=") || is_equal(run.budget, a, b);
     }>},
    {">=", binary_test<[](R run, V a, V b) {
       return is_less(run.budget, b, a, ">=") || is_equal(run.budget, a, b);
     }>},
    {"filter", is_name<Filter, find_filter>},
    {"test", is_name<Test, find_test>},
};

}  // namespace

Value make_lazy(Runtime& run, const std::function<void(std::vector<Value>&)>& fill) {
  std::vector<Value> out;
  std::unique_ptr<Failure> end;
  try {
    fill(out);
  } catch (const Failure& failure) {
    if (failure.kind == "LimitError") throw;
    end = std::make_unique<Failure>(failure);
  }
  Value iterator = make_iterator(run.budget, "generator", std::move(out));
  iterator.mutable_as<Iterator>().end = std::move(end);
  return iterator;
}

std::span<const FilterRow> selection_filters() { return k_selection_filters; }

const Test* find_test(std::string_view name) {
  for (const auto& row : k_tests)
    if (row.first == name) return &row.second;
  return nullptr;
}

}  // namespace cohort::text::jinja
