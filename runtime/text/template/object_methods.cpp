/// Methods of dicts, lists, tuples, numbers and the helpers of Jinja; calls.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/text/template/interpreter.hpp"
#include "runtime/text/template/loop.hpp"
#include "runtime/text/template/printing.hpp"
#include "runtime/text/template/runtime.hpp"

namespace cohort::text::jinja {
namespace {

template <DictView::Part t_part>
Value dict_view(Runtime&, const Value& self, const Arguments& arguments) {
  const Bound bound("items", arguments, {});
  return Value::of(Kind::dict_view, std::make_shared<DictView>(t_part, self));
}

Value dict_get(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("get", arguments, {"key", "default"}, 1);
  const Value* found = self.dict().find(run.budget, bound[0]);
  if (found != nullptr) return *found;
  return bound.has(1) ? bound[1] : Value::none();
}

/// A copy is the value itself: nothing can change it.
Value copy_method(Runtime&, const Value& self, const Arguments& arguments) {
  const Bound bound("copy", arguments, {});
  return self;
}

Value sequence_count(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"value"}, 1);
  Integer found = 0;
  for (const auto& item : items_of(run, self))
    if (is_equal(run.budget, item, bound[0])) ++found;
  return Value::integer(found);
}

Value sequence_index(Runtime& run, const Value& self, const Arguments& arguments) {
  const Bound bound("index", arguments, {"value", "start", "stop"}, 1);
  const auto items = items_of(run, self);
  const auto size = static_cast<Integer>(items.size());
  const auto place = [&](size_t i, Integer otherwise) {
    Integer x = bound.whole(i, otherwise);
    if (x < 0) x = std::max<Integer>(0, x + size);
    return std::min(x, size);
  };
  for (Integer i = place(1, 0); i < place(2, size); ++i)
    if (is_equal(run.budget, items[static_cast<size_t>(i)], bound[0])) return Value::integer(i);
  fail("ValueError", "the value is not in the sequence");
}

Value is_integer_method(Runtime&, const Value& self, const Arguments& arguments) {
  const Bound bound("is_integer", arguments, {});
  return Value::boolean(std::floor(self.real_value()) == self.real_value());
}

Value cycler_next(Runtime&, const Value& self, const Arguments& arguments) {
  const Bound bound("next", arguments, {});
  auto& cycler = self.mutable_as<Cycler>();
  const Value value = cycler.items[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.items.size();
  return value;
}
Value cycler_reset(Runtime&, const Value& self, const Arguments& arguments) {
  const Bound bound("reset", arguments, {});
  self.mutable_as<Cycler>().at = 0;
  return Value::none();
}

Value dict_fromkeys(Runtime& run, const Value&, const Arguments& arguments) {
  const Bound bound("fromkeys", arguments, {"iterable", "value"}, 1);
  Dict::Entries entries;
  for (auto& key : items_of(run, bound[0]))
    entries.emplace_back(std::move(key), bound.has(1) ? bound[1] : Value::none());
  return make_dict(run.budget, std::move(entries));
}

Native dict_method(std::string_view name) {
  if (name == "fromkeys") return dict_fromkeys;
  if (name == "items") return dict_view<DictView::Part::items>;
  if (name == "keys") return dict_view<DictView::Part::keys>;
  if (name == "values") return dict_view<DictView::Part::values>;
  if (name == "get") return dict_get;
  if (name == "copy") return copy_method;
  return nullptr;
}

Native sequence_method(const Value& x, std::string_view name) {
  if (name == "count") return sequence_count;
  if (name == "index") return sequence_index;
  if (name == "copy" && x.is(Kind::list)) return copy_method;
  return nullptr;
}

Value macro_attribute(const MacroPlan& plan, std::string_view name) {
  if (name == "name") return constant_text(plan.name);
  if (name == "caller") return Value::boolean(plan.uses_caller);
  if (name == "catch_kwargs") return Value::boolean(plan.kwargs_slot.has_value());
  if (name == "catch_varargs") return Value::boolean(plan.varargs_slot.has_value());
  if (name != "arguments") return {};
  std::vector<Value> names;
  for (const auto& parameter : plan.parameters) names.push_back(constant_text(parameter->name));
  return Value::of(Kind::tuple, std::make_shared<Sequence>(nullptr, std::move(names)));
}

Value number_attribute(const Value& x, std::string_view name) {
  if (name == "real") return x.is_whole() ? Value::integer(x.whole()) : x;
  if (name == "imag") return x.is_whole() ? Value::integer(0) : Value::real(0);
  if (x.is_whole() && name == "numerator") return Value::integer(x.whole());
  return x.is_whole() && name == "denominator" ? Value::integer(1) : Value();
}

Value value_attribute(const Value& x, std::string_view name) {
  if (x.is(Kind::cycler) && name == "current") {
    const auto& cycler = x.as<Cycler>();
    return cycler.items[cycler.at];
  }
  if (x.is(Kind::range)) {
    const auto& range = x.as<Range>();
    if (name == "start") return Value::integer(range.start);
    if (name == "stop") return Value::integer(range.stop);
    if (name == "step") return Value::integer(range.step);
  }
  if (x.is(Kind::macro)) return macro_attribute(x.as<Macro>().plan, name);
  if (x.is_number()) return number_attribute(x, name);
  if (x.is(Kind::tuple) && x.as<Sequence>().is_group) {
    if (name == "grouper") return x.items()[0];
    if (name == "list") return x.items()[1];
  }
  return {};
}

Native method_of(const Value& x, std::string_view name) {
  switch (x.kind()) {
    case Kind::text:
      return find_text_method(name);
    case Kind::dict:
      return dict_method(name);
    case Kind::function:
      return name == "fromkeys" && x.as<Function>().name == "dict" ? dict_fromkeys : nullptr;
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
      return sequence_method(x, name);
    case Kind::loop:
      return find_loop_method(name);
    case Kind::real:
      return name == "is_integer" ? is_integer_method : nullptr;
    case Kind::cycler:
      if (name == "next") return cycler_next;
      return name == "reset" ? cycler_reset : nullptr;
    default:
      return nullptr;
  }
}

/// Most methods of Python's own types take no names.
void check_takes_names(const Function& method) {
  constexpr std::string_view k_some[] = {"encode", "expandtabs", "format",
                                         "rsplit", "split",      "splitlines"};
  const Value& self = method.self;
  const bool is_own = self.is(Kind::text) || self.is(Kind::dict) || self.is(Kind::range) ||
                      self.is_sequence() || (self.is(Kind::function) && method.name == "fromkeys");
  if (is_own && std::ranges::find(k_some, method.name) == std::end(k_some))
    fail("TypeError",
         fmt::format("{}.{}() takes no keyword arguments", type_name(self), method.name));
}

}  // namespace

Value make_function(std::string name, Value self, Native native) {
  return Value::of(Kind::function,
                   std::make_shared<Function>(std::move(name), std::move(self), native));
}

std::string object_repr(const Value& x) {
  if (x.is(Kind::loop)) {
    auto& loop = x.mutable_as<Loop>();
    return fmt::format("<LoopContext {}/{}>", integer_text(loop.index0 + 1),
                       integer_text(loop.length()));
  }
  if (x.is(Kind::function) && x.as<Function>().name == "self") return "<TemplateReference None>";
  if (!x.is(Kind::macro)) return fmt::format("<{} object>", type_name(x));
  const auto& name = x.as<Macro>().plan.name;
  return name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", name);
}

Value find_method(const Value& x, std::string_view name) {
  if (const Native native = method_of(x, name)) return make_function(std::string(name), x, native);
  return value_attribute(x, name);
}

Value call_value(Runtime& run, const Value& callee, Arguments arguments) {
  check_defined(callee);
  run.budget.step();
  if (callee.is(Kind::macro)) return run.call_macro(callee, std::move(arguments));
  if (callee.is(Kind::joiner)) {
    auto& joiner = callee.mutable_as<Joiner>();
    if (joiner.is_used) return joiner.separator;
    joiner.is_used = true;
    return make_text(run.budget, "");
  }
  if (callee.is(Kind::loop))
    fail("TypeError", "The loop must have the 'recursive' marker to be called recursively.");
  if (!callee.is(Kind::function))
    fail("TypeError", fmt::format("'{}' object is not callable", type_name(callee)));
  const auto& function = callee.as<Function>();
  if (!arguments.named.empty()) check_takes_names(function);
  return function.native(run, function.self, arguments);
}

}  // namespace cohort::text::jinja
