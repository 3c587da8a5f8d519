#pragma once
/// What expressions of a template can do with values: operators, attributes, filters, tests,
/// methods, functions. A template reaches nothing else: no file, no clock, no object of the
/// program. One Runtime per rendering, one thread.
#include <ctime>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/template/value.hpp"

namespace cohort::text::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Runtime {
 public:
  explicit Runtime(const Limits& limits, std::optional<std::tm> local_time)
      : budget(limits), now(local_time) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime();

  virtual Value call_macro(const Value& macro, Arguments arguments) = 0;
  /// Keeps a value that may hold itself, and clears it when the rendering ends.
  void keep(std::shared_ptr<Mutable> value) { kept_.push_back(std::move(value)); }

  Budget budget;
  std::optional<std::tm> now;  // what strftime_now tells

 private:
  std::vector<std::shared_ptr<Mutable>> kept_;
};

/// A function or a bound method; `self` is missing for a function.
using Native = Value (*)(Runtime&, const Value& self, const Arguments&);
struct Function : Object {
  Function(std::string n, Value s, Native x)
      : Object(nullptr, 0), name(std::move(n)), self(std::move(s)), native(x) {}
  std::string name;
  Value self;
  Native native;
};
Value make_function(std::string name, Value self, Native native);

using Filter = Value (*)(Runtime&, const Value&, const Arguments&);
using Test = bool (*)(Runtime&, const Value&, const Arguments&);
/// Return null for an unknown name.
const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);
/// Returns a function that every template has, e.g. range, or a missing value.
Value find_global(std::string_view name);
/// Return the method of a text, list, tuple, dict … or a missing value.
Native find_text_method(std::string_view name);
Value find_method(const Value& x, std::string_view name);
/// repr() of what is no data: a macro, a loop, a function.
std::string object_repr(const Value& x);

/// x.name, x[key] and x[start:stop:step] with Jinja's rules; absent: undefined.
Value attribute_of(Runtime& run, const Value& x, std::string_view name);
Value item_of(Runtime& run, const Value& x, const Value& key);
Value slice_of(Runtime& run, const Value& x, const Value& start, const Value& stop,
               const Value& step);
Value call_value(Runtime& run, const Value& callee, Arguments arguments);

Value add_values(Runtime& run, const Value& a, const Value& b);
Value subtract_values(const Value& a, const Value& b);
Value multiply_values(Runtime& run, const Value& a, const Value& b);
Value divide_values(const Value& a, const Value& b);
Value floor_divide_values(const Value& a, const Value& b);
Value modulo_values(Runtime& run, const Value& a, const Value& b);
Value power_values(const Value& a, const Value& b);
Value negative_of(const Value& x);
Value positive_of(const Value& x);
bool contains(Runtime& run, const Value& container, const Value& x);

/// format % arguments, and format.format(…).
std::string percent_format(Runtime& run, std::string_view format, const Value& arguments);
std::string brace_format(Runtime& run, const Value& format, const Arguments& arguments);
/// strftime_now's text.
std::string format_time(Runtime& run, const std::string& format);

/// Python's iteration over a value. Fails with a TypeError if it has none.
class Items {
 public:
  Items(Runtime& run, Value iterable);
  /// Returns whether there is another item, and sets it.
  bool next(Value& item);
  void end() { iterable_ = Value(); }  // nothing more comes

 private:
  Runtime& run_;
  Value iterable_;
  size_t at_ = 0;  // [bytes] of a text, items otherwise
};
std::vector<Value> items_of(Runtime& run, const Value& iterable);
/// len(x). Fails with a TypeError if it has none.
size_t length_of(const Value& x);
bool is_iterable(const Value& x);

/// Arguments of a function by the names of its parameters. Fails with a TypeError for one too many,
/// unknown, given twice, or missing.
class Bound {
 public:
  Bound(std::string_view function, const Arguments& arguments,
        std::initializer_list<std::string_view> names, size_t required = 0);
  bool has(size_t i) const { return !values_[i].is(Kind::missing); }
  bool has_value(size_t i) const { return has(i) && !values_[i].is(Kind::none); }
  const Value& operator[](size_t i) const { return values_[i]; }
  Integer whole(size_t i, Integer otherwise) const;
  bool truth(size_t i, bool otherwise) const { return has(i) ? is_true(values_[i]) : otherwise; }
  const std::string& text(size_t i) const;

 private:
  std::string_view function_;
  std::vector<Value> values_;
};
/// Returns an integer that an index or a count may be. Fails with a TypeError.
Integer index_value(const Value& x);

}  // namespace cohort::text::jinja
