#include "runtime/text/template/loop.hpp"

#include <algorithm>

namespace cohort::text::jinja {

Loop::Loop(Runtime& r, Value x) : Mutable(&r.budget, 256), run(r), iterable(x), source(r, x) {}

bool Loop::take(Value& item) {
  if (!ahead.empty()) {
    item = std::move(ahead.back());
    ahead.pop_back();
    return true;
  }
  while (source.next(item))
    if (!test || test(item)) return true;
  return false;
}

const Value& Loop::peek() {
  if (after.is(Kind::missing) && !take(after)) after = Value();
  return after;
}

bool Loop::advance() {
  Value item;
  if (!after.is(Kind::missing)) {
    item = std::move(after);
    after = Value();
  } else if (!take(item)) {
    return false;
  }
  ++index0;
  before = std::move(current);
  current = std::move(item);
  return true;
}

void Loop::finish() {
  source.end();
  test = nullptr;
}

void Loop::clear() {
  iterable = current = before = after = changed_value = Value();
  ahead.clear();
  finish();
}

Integer Loop::length() {
  if (known_length) return *known_length;
  const bool has_length = !test && !iterable.is(Kind::iterator) && !iterable.is(Kind::missing);
  if (has_length) {
    known_length = static_cast<Integer>(length_of(iterable));
    return *known_length;
  }
  std::vector<Value> rest;
  for (Value item; take(item);) rest.push_back(std::move(item));
  const auto count = static_cast<Integer>(rest.size());
  std::ranges::reverse(rest);
  ahead = std::move(rest);
  known_length = count + index0 + 1 + (after.is(Kind::missing) ? 0 : 1);
  return *known_length;
}

namespace {

Loop& loop_of(const Value& self) { return self.mutable_as<Loop>(); }

Value loop_cycle(Runtime&, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) fail("TypeError", "no items for cycling given");
  const auto count = static_cast<Integer>(arguments.positional.size());
  const Integer index = std::max<Integer>(loop_of(self).index0, 0);
  return arguments.positional[static_cast<size_t>(index % count)];
}

Value loop_changed(Runtime& run, const Value& self, const Arguments& arguments) {
  Loop& loop = loop_of(self);
  const Value value = make_tuple(run.budget, arguments.positional);
  if (loop.changed_value.is(Kind::tuple) && is_equal(run.budget, loop.changed_value, value))
    return Value::boolean(false);
  if (!loop.keeps_changed) run.keep(std::static_pointer_cast<Loop>(self.object()));
  loop.keeps_changed = true;
  loop.changed_value = value;
  return Value::boolean(true);
}

}  // namespace

Value Loop::attribute(std::string_view name) {
  if (name == "index0") return Value::integer(index0);
  if (name == "index") return Value::integer(index0 + 1);
  if (name == "first") return Value::boolean(index0 == 0);
  if (name == "last") return Value::boolean(peek().is(Kind::missing));
  if (name == "length") return Value::integer(length());
  if (name == "revindex0") return Value::integer(length() - index0 - 1);
  if (name == "revindex") return Value::integer(length() - index0);
  if (name == "depth") return Value::integer(1);
  if (name == "depth0") return Value::integer(0);
  if (name == "previtem")
    return before.is(Kind::missing) ? Value::undefined("there is no previous item") : before;
  if (name == "nextitem") {
    const Value next = peek();
    return next.is(Kind::missing) ? Value::undefined("there is no next item") : next;
  }
  return {};
}

Native find_loop_method(std::string_view name) {
  if (name == "cycle") return loop_cycle;
  if (name == "changed") return loop_changed;
  return nullptr;
}

}  // namespace cohort::text::jinja
