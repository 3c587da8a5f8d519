#include "runtime/text/template/value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "runtime/text/template/characters.hpp"

namespace cohort::text::jinja {
namespace {

constexpr size_t k_entries_without_index = 8;

int depth_of_value(const Value& x) {
  switch (x.kind()) {
    case Kind::list:
    case Kind::tuple:
      return x.as<Sequence>().depth;
    case Kind::dict:
      return x.dict().depth;
    case Kind::dict_view:
      return x.as<DictView>().dict.dict().depth + 1;
    default:
      return 0;
  }
}

int one_deeper(int depth) {
  if (depth >= k_max_value_depth)
    fail("LimitError", fmt::format("a value nests more than {} deep", k_max_value_depth));
  return depth + 1;
}

bool is_text(const Value& x, std::string_view text) { return x.is(Kind::text) && x.text() == text; }

uint64_t hash_of_text(std::string_view text) { return std::hash<std::string_view>{}(text); }

}  // namespace

Object::Object(Budget* payer, size_t size_bytes) : budget(payer), bytes(size_bytes) {
  if (budget != nullptr) budget->take(bytes);
}
Object::~Object() {
  if (budget != nullptr) budget->give(bytes);
}

Value Value::boolean(bool x) {
  Value value(Kind::boolean);
  value.whole_ = x ? 1 : 0;
  return value;
}
Value Value::integer(Integer x) {
  Value value(Kind::integer);
  value.whole_ = x;
  return value;
}
Value Value::real(double x) {
  Value value(Kind::real);
  value.real_ = x;
  return value;
}
Value Value::undefined(std::string message, std::string kind) {
  return of(Kind::undefined, std::make_shared<Undefined>(std::move(message), std::move(kind)));
}
Value Value::undefined_name(std::string_view name) {
  return undefined(fmt::format("'{}' is undefined", name));
}
Value Value::of(Kind kind, std::shared_ptr<Object> object) {
  Value value(kind);
  value.object_ = std::move(object);
  return value;
}
const std::string& Value::text() const { return as<Text>().bytes; }
const std::vector<Value>& Value::items() const { return as<Sequence>().items; }

Text::Text(Budget* payer, std::string x, bool is_escaped)
    : Object(payer, x.size() + 96),
      bytes(std::move(x)),
      length(character_count(bytes)),
      is_markup(is_escaped) {}

Sequence::Sequence(Budget* payer, std::vector<Value> x)
    : Object(payer, x.size() * sizeof(Value) + 96), items(std::move(x)), depth(0) {
  for (const auto& item : items) depth = std::max(depth, depth_of_value(item));
  depth = one_deeper(depth);
}

Dict::Dict(Budget& payer, Entries x)
    : Object(&payer, x.size() * (2 * sizeof(Value) + 48) + 128), entries(std::move(x)), depth(0) {
  for (const auto& [key, value] : entries) depth = std::max(depth, depth_of_value(value));
  depth = one_deeper(depth);
  if (entries.size() <= k_entries_without_index) return;
  for (size_t i = 0; i < entries.size(); ++i)
    index_.emplace(hash_of(payer, entries[i].first), static_cast<uint32_t>(i));
}

template <class Same>
const Value* Dict::find_by(uint64_t hash, const Same& is_same) const {
  if (index_.empty()) {
    for (const auto& [key, value] : entries)
      if (is_same(key)) return &value;
    return nullptr;
  }
  const auto [first, last] = index_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (is_same(entries[it->second].first)) return &entries[it->second].second;
  return nullptr;
}
const Value* Dict::find(std::string_view key) const {
  return find_by(hash_of_text(key), [&](const Value& x) { return is_text(x, key); });
}
const Value* Dict::find(Budget& payer, const Value& key) const {
  if (key.is(Kind::text)) {
    payer.step(key.text().size() / 256);
    return find(key.text());
  }
  return find_by(hash_of(payer, key), [&](const Value& x) { return is_equal(payer, x, key); });
}

Integer Range::size() const {
  if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
  return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

Iterator::Iterator(Budget* payer, std::string n, std::vector<Value> x)
    : Object(payer, x.size() * sizeof(Value) + 128), name(std::move(n)), items(std::move(x)) {}

Value* Namespace::find(std::string_view name) {
  for (auto& [key, value] : entries)
    if (is_text(key, name)) return &value;
  return nullptr;
}

void Namespace::check_size(size_t count) {
  constexpr size_t most = 1000;
  if (count > most) fail("LimitError", fmt::format("a namespace of more than {} names", most));
}

Cycler::Cycler(Budget* payer, std::vector<Value> x)
    : Mutable(payer, x.size() * sizeof(Value) + 64), items(std::move(x)) {}

Value make_text(Budget& budget, std::string bytes, bool is_markup) {
  budget.check_text(bytes.size());
  return Value::of(Kind::text, std::make_shared<Text>(&budget, std::move(bytes), is_markup));
}
Value make_list(Budget& budget, std::vector<Value> items) {
  return Value::of(Kind::list, std::make_shared<Sequence>(&budget, std::move(items)));
}
Value make_tuple(Budget& budget, std::vector<Value> items) {
  return Value::of(Kind::tuple, std::make_shared<Sequence>(&budget, std::move(items)));
}
Value make_dict(Budget& budget, Dict::Entries entries) {
  std::unordered_multimap<uint64_t, size_t> seen;
  size_t kept = 0;
  for (auto& entry : entries) {
    budget.step();
    const uint64_t hash = hash_of(budget, entry.first);
    const auto [first, last] = seen.equal_range(hash);
    const auto same = std::find_if(first, last, [&](const auto& x) {
      return is_equal(budget, entries[x.second].first, entry.first);
    });
    if (same != last) {
      entries[same->second].second = std::move(entry.second);
      continue;
    }
    seen.emplace(hash, kept);
    if (&entries[kept] != &entry) entries[kept] = std::move(entry);
    ++kept;
  }
  entries.resize(kept);
  return Value::of(Kind::dict, std::make_shared<Dict>(budget, std::move(entries)));
}
Value make_iterator(Budget& budget, std::string name, std::vector<Value> items) {
  return Value::of(Kind::iterator,
                   std::make_shared<Iterator>(&budget, std::move(name), std::move(items)));
}
Value constant_text(std::string bytes) {
  return Value::of(Kind::text, std::make_shared<Text>(nullptr, std::move(bytes), false));
}

bool is_true(const Value& x) {
  switch (x.kind()) {
    case Kind::missing:
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return x.whole() != 0;
    case Kind::real:
      return x.real_value() != 0;
    case Kind::text:
      return !x.text().empty();
    case Kind::list:
    case Kind::tuple:
      return !x.items().empty();
    case Kind::dict:
      return !x.dict().entries.empty();
    case Kind::dict_view:
      return is_true(x.as<DictView>().dict);
    case Kind::range:
      return x.as<Range>().size() != 0;
    default:
      return true;
  }
}

std::string_view type_name(const Value& x) {
  switch (x.kind()) {
    case Kind::missing:
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::text:
      return x.text_object().is_markup ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::dict_view:
      switch (x.as<DictView>().part) {
        case DictView::Part::keys:
          return "dict_keys";
        case DictView::Part::values:
          return "dict_values";
        case DictView::Part::items:
          return "dict_items";
      }
      return "dict_items";
    case Kind::range:
      return "range";
    case Kind::iterator:
      return x.as<Iterator>().name;
    case Kind::name_space:
      return "Namespace";
    case Kind::function:
      return "function";
    case Kind::macro:
      return "Macro";
    case Kind::loop:
      return "LoopContext";
    case Kind::cycler:
      return "Cycler";
    case Kind::joiner:
      return "Joiner";
  }
  return "object";
}

void check_defined(const Value& x) {
  if (!x.is(Kind::undefined)) return;
  fail(x.undefined_object().error, x.undefined_object().message);
}

namespace {

bool is_equal_number(const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole()) return a.whole() == b.whole();
  if (a.is(Kind::real) && b.is(Kind::real)) return a.real_value() == b.real_value();
  const double real = a.is(Kind::real) ? a.real_value() : b.real_value();
  const Integer whole = a.is(Kind::real) ? b.whole() : a.whole();
  return std::floor(real) == real && std::abs(real) < 0x1p126 &&
         static_cast<Integer>(real) == whole;
}

bool is_equal_dict(Budget& budget, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::ranges::all_of(a.entries, [&](const auto& entry) {
    budget.step();
    const Value* other = b.find(budget, entry.first);
    return other != nullptr && is_equal(budget, entry.second, *other);
  });
}

bool is_equal_view(Budget& budget, const Value& a, const Value& b) {
  const auto& x = a.as<DictView>();
  const auto& y = b.as<DictView>();
  if (x.part != y.part || x.part == DictView::Part::values) return a.object() == b.object();
  if (x.part == DictView::Part::items) return is_equal_dict(budget, x.dict.dict(), y.dict.dict());
  const auto& entries = x.dict.dict().entries;
  return entries.size() == y.dict.dict().entries.size() &&
         std::ranges::all_of(entries, [&](const auto& entry) {
           budget.step();
           return y.dict.dict().find(budget, entry.first) != nullptr;
         });
}

bool is_equal_range(const Range& a, const Range& b) {
  if (a.size() != b.size()) return false;
  if (a.size() == 0) return true;
  return a.start == b.start && (a.size() == 1 || a.step == b.step);
}

}  // namespace

bool is_equal(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (a.is_number() && b.is_number()) return is_equal_number(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::text:
      budget.step(std::min(a.text().size(), b.text().size()) / 1024);
      return a.text() == b.text();
    case Kind::list:
    case Kind::tuple:
      if (a.object() == b.object()) return true;
      return std::ranges::equal(a.items(), b.items(), [&](const Value& x, const Value& y) {
        return is_equal(budget, x, y);
      });
    case Kind::dict:
      return a.object() == b.object() || is_equal_dict(budget, a.dict(), b.dict());
    case Kind::dict_view:
      return is_equal_view(budget, a, b);
    case Kind::range:
      return is_equal_range(a.as<Range>(), b.as<Range>());
    default:
      return a.object() == b.object();
  }
}

bool is_less(Budget& budget, const Value& a, const Value& b, std::string_view operation) {
  budget.step();
  check_defined(a);
  check_defined(b);
  if (a.is_number() && b.is_number()) {
    if (a.is_whole() && b.is_whole()) return a.whole() < b.whole();
    return a.number() < b.number();
  }
  if (a.is(Kind::text) && b.is(Kind::text)) {
    budget.step(std::min(a.text().size(), b.text().size()) / 1024);
    return a.text() < b.text();  // UTF-8 orders as code points do
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    const auto& x = a.items();
    const auto& y = b.items();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!is_equal(budget, x[i], y[i])) return is_less(budget, x[i], y[i], operation);
    return x.size() < y.size();
  }
  fail("TypeError", fmt::format("'{}' not supported between instances of '{}' and '{}'", operation,
                                type_name(a), type_name(b)));
}

uint64_t hash_of(Budget& budget, const Value& x) {
  budget.step();
  constexpr uint64_t mix = 0x9E3779B97F4A7C15;
  switch (x.kind()) {
    case Kind::none:
      return 1;
    case Kind::undefined:
      return 2;
    case Kind::boolean:
    case Kind::integer:
      return static_cast<uint64_t>(x.whole()) * mix;
    case Kind::real: {
      const double real = x.real_value();
      if (std::floor(real) == real && std::abs(real) < 0x1p126)
        return static_cast<uint64_t>(static_cast<Integer>(real)) * mix;
      return std::hash<double>{}(real);
    }
    case Kind::text:
      budget.step(x.text().size() / 256);
      return hash_of_text(x.text());
    case Kind::tuple: {
      uint64_t hash = 3;
      for (const auto& item : x.items()) hash = (hash ^ hash_of(budget, item)) * mix + 1;
      return hash;
    }
    case Kind::list:
    case Kind::dict:
    case Kind::dict_view:
      fail("TypeError", fmt::format("unhashable type: '{}'", type_name(x)));
    case Kind::range:
      return static_cast<uint64_t>(x.as<Range>().size()) * mix;
    default:
      return std::hash<const void*>{}(x.object().get());
  }
}

}  // namespace cohort::text::jinja
