#pragma once
/// Values of a template: Python's, as far as templates can tell. Cheap to copy; what they share is
/// immutable, but for namespaces, iterators and loops, which a rendering owns. Dicts keep the order
/// of insertion. Containers are at most k_max_value_depth deep, so that recursion over them is
/// bounded. Thread-safe where no mutable value is shared: constants of a compiled template are.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/text/template/budget.hpp"

namespace cohort::text::jinja {

__extension__ using Integer = __int128;  // Python's int, up to 127 bits; more is an error
inline constexpr int k_max_value_depth = 200;

enum class Kind : uint8_t {
  missing,  // a variable that nothing has set yet; never seen by expressions
  undefined,
  none,
  boolean,
  integer,
  real,
  text,
  list,
  tuple,
  dict,
  dict_view,
  range,
  iterator,
  name_space,
  function,
  macro,
  loop,
  cycler,
  joiner,
};

/// What values share. `budget` (null for constants) is paid for as long as it lives.
struct Object {
  Object(Budget* payer, size_t size_bytes);
  virtual ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  Budget* budget;
  size_t bytes;
};

struct Text;
struct Sequence;
struct Dict;
struct Undefined;

class Value {
 public:
  Value() = default;  // missing
  static Value none() { return Value(Kind::none); }
  static Value boolean(bool x);
  static Value integer(Integer x);
  static Value real(double x);
  /// An undefined value whose use fails with `message`.
  static Value undefined(std::string message, std::string kind = "UndefinedError");
  static Value undefined_name(std::string_view name);
  static Value of(Kind kind, std::shared_ptr<Object> object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_number() const { return kind_ >= Kind::boolean && kind_ <= Kind::real; }
  bool is_whole() const { return is(Kind::boolean) || is(Kind::integer); }
  bool is_sequence() const { return is(Kind::list) || is(Kind::tuple); }
  bool is_callable() const { return is(Kind::function) || is(Kind::macro) || is(Kind::joiner); }

  // REQUIRES: the kind of the name.
  bool boolean_value() const { return whole_ != 0; }
  Integer whole() const { return whole_; }  // integer or boolean
  double real_value() const { return real_; }
  double number() const { return is(Kind::real) ? real_ : static_cast<double>(whole_); }
  const std::string& text() const;
  const Text& text_object() const { return as<Text>(); }
  const std::vector<Value>& items() const;  // of a list or tuple
  const Dict& dict() const { return as<Dict>(); }
  const Undefined& undefined_object() const { return as<Undefined>(); }
  template <class T>
  const T& as() const {
    return static_cast<const T&>(*object_);
  }
  template <class T>
  T& mutable_as() const {
    return static_cast<T&>(*object_);
  }
  const std::shared_ptr<Object>& object() const { return object_; }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Kind kind_ = Kind::missing;
  double real_ = 0;
  Integer whole_ = 0;
  std::shared_ptr<Object> object_;
};

struct Undefined : Object {
  Undefined(std::string m, std::string k)
      : Object(nullptr, 0), message(std::move(m)), error(std::move(k)) {}
  std::string message;
  std::string error;  // kind of the Failure
};

struct Text : Object {
  Text(Budget* payer, std::string x, bool is_escaped);
  std::string bytes;  // valid UTF-8
  size_t length;      // [characters]
  bool is_markup;     // escaped text: what is joined to it is escaped
  bool is_ascii() const { return length == bytes.size(); }
};

struct Sequence : Object {
  Sequence(Budget* payer, std::vector<Value> x);
  std::vector<Value> items;
  int depth;
  bool is_group = false;  // a tuple of groupby: its parts are grouper and list
};

struct Dict : Object {
  using Entries = std::vector<std::pair<Value, Value>>;
  /// REQUIRES: keys differ and have a hash.
  Dict(Budget& payer, Entries x);
  /// Returns the value of a key, or null.
  const Value* find(std::string_view key) const;
  const Value* find(Budget& payer, const Value& key) const;

  Entries entries;
  int depth;

 private:
  template <class Same>
  const Value* find_by(uint64_t hash, const Same& is_same) const;
  std::unordered_multimap<uint64_t, uint32_t> index_;  // empty for a few entries
};

struct DictView : Object {
  enum class Part : uint8_t { keys, values, items };
  DictView(Part p, Value d) : Object(nullptr, 0), part(p), dict(std::move(d)) {}
  Part part;
  Value dict;
};

struct Range : Object {
  Range(Integer a, Integer b, Integer s) : Object(nullptr, 0), start(a), stop(b), step(s) {}
  Integer start, stop, step;
  Integer size() const;
  Integer at(Integer i) const { return start + i * step; }
};

/// Python's one-shot iterators: what is taken is gone. Made at once; a failure comes at its place.
struct Iterator : Object {
  Iterator(Budget* payer, std::string n, std::vector<Value> x);
  std::string name;
  std::vector<Value> items;
  size_t next = 0;
  std::unique_ptr<Failure> end;  // what making the next item ended with
};

/// Mutable values can hold themselves: a rendering keeps them and clears them at its end.
struct Mutable : Object {
  using Object::Object;
  virtual void clear() = 0;
};

struct Namespace : Mutable {
  explicit Namespace(Budget* payer) : Mutable(payer, 256) {}
  std::vector<std::pair<Value, Value>> entries;  // keys are texts, or what a dict brought
  Value* find(std::string_view name);
  /// Refuses more names than are looked through one by one.
  static void check_size(size_t count);
  void clear() override { entries.clear(); }
};

struct Cycler : Mutable {
  Cycler(Budget* payer, std::vector<Value> x);
  std::vector<Value> items;
  size_t at = 0;
  void clear() override { items.clear(); }
};

struct Joiner : Mutable {
  Joiner(Budget* payer, Value x) : Mutable(payer, 64), separator(std::move(x)) {}
  Value separator;
  bool is_used = false;
  void clear() override { separator = Value(); }
};

Value make_text(Budget& budget, std::string bytes, bool is_markup = false);
Value make_list(Budget& budget, std::vector<Value> items);
Value make_tuple(Budget& budget, std::vector<Value> items);
/// A later entry with an equal key replaces the value of an earlier one. Fails for a key without a
/// hash.
Value make_dict(Budget& budget, Dict::Entries entries);
Value make_iterator(Budget& budget, std::string name, std::vector<Value> items);
/// Constants of a template, which no rendering pays.
Value constant_text(std::string bytes);

bool is_true(const Value& x);
/// Python's name of the type, e.g. "str".
std::string_view type_name(const Value& x);
/// Fails with the message of an undefined value; otherwise returns.
void check_defined(const Value& x);
/// Python's ==. Deep; pays for each element.
bool is_equal(Budget& budget, const Value& a, const Value& b);
/// Python's <, where the types have an order. Fails with a TypeError where not.
bool is_less(Budget& budget, const Value& a, const Value& b, std::string_view operation = "<");
/// Returns the hash of a value; pays for each element. Fails for lists and dicts.
uint64_t hash_of(Budget& budget, const Value& x);

}  // namespace cohort::text::jinja
