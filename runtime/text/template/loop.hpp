#pragma once
/// The `loop` variable: what it tells of a for loop, and the items that it peeks at. One thread.
#include <functional>
#include <optional>

#include "runtime/text/template/runtime.hpp"

namespace cohort::text::jinja {

struct Loop : Mutable {
  Loop(Runtime& run, Value x);

  /// Moves to the next item that passes the test. Returns whether there is one.
  bool advance();
  /// Nothing more comes: the loop's scopes end.
  void finish();
  void clear() override;
  Value attribute(std::string_view name);
  Integer length();

  Runtime& run;
  Value iterable;
  Items source;
  std::function<bool(const Value&)> test;  // may be empty
  Integer index0 = -1;
  Value current, before, after;  // missing: none
  std::optional<Integer> known_length;
  std::vector<Value> ahead;  // taken to count them, in reverse
  Value changed_value;
  bool keeps_changed = false;

 private:
  bool take(Value& item);
  const Value& peek();
};

/// cycle and changed; null for another name.
Native find_loop_method(std::string_view name);

}  // namespace cohort::text::jinja
