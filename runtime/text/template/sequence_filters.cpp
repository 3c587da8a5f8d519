/// Filters on sequences and dicts: order, parts, sums.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/text/template/characters.hpp"
#include "runtime/text/template/filter_tables.hpp"
#include "runtime/text/template/printing.hpp"
#include "runtime/text/template/splitting.hpp"

namespace cohort::text::jinja {

AttributeReader::AttributeReader(Runtime& run, const Value& attribute) : run_(run) {
  if (attribute.is(Kind::missing) || attribute.is(Kind::none)) return;
  if (!attribute.is(Kind::text)) {
    parts_.push_back(attribute);
    return;
  }
  for (const auto part : split_at(run.budget, attribute.text(), ".", -1, false)) {
    const bool is_number =
        !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    parts_.push_back(is_number ? Value::integer(parse_integer(part, 10).value_or(0))
                               : make_text(run.budget, std::string(part)));
  }
}
Value AttributeReader::read(const Value& item) const { return read_or(item, Value()); }
Value AttributeReader::read_or(const Value& item, const Value& otherwise) const {
  Value value = item;
  for (const auto& part : parts_) {
    value = item_of(run_, value, part);
    const bool takes_other = !otherwise.is(Kind::missing) && !otherwise.is(Kind::none);
    if (takes_other && value.is(Kind::undefined)) value = otherwise;
  }
  return value;
}

Value without_case(Runtime& run, const Value& x) {
  if (!x.is(Kind::text)) return x;
  run.budget.scan(x.text().size());
  return make_text(run.budget, to_case(x.text(), Case::lower), x.text_object().is_markup);
}

namespace {

using Keyed = std::vector<std::pair<Value, Value>>;  // key, item

/// sorted()'s reverse, a whole number.
bool reverse_of(const Bound& bound, size_t i) {
  if (bound.has(i) && !bound[i].is_whole())
    fail("TypeError",
         fmt::format("'{}' object cannot be interpreted as an integer", type_name(bound[i])));
  return bound.truth(i, false);
}

void sort_by_key(Runtime& run, Keyed& items, bool is_reverse) {
  // Python keeps the order of equal items in reverse as well.
  std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
    return is_reverse ? is_less(run.budget, b.first, a.first)
                      : is_less(run.budget, a.first, b.first);
  });
}

Value list_of_items(Runtime& run, Keyed& items) {
  std::vector<Value> out;
  out.reserve(items.size());
  for (auto& item : items) out.push_back(std::move(item.second));
  return make_list(run.budget, std::move(out));
}

Value sort_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<AttributeReader> readers;
  if (bound.has(2) && bound[2].is(Kind::text)) {
    for (const auto part : split_at(run.budget, bound.text(2), ",", -1, false))
      readers.emplace_back(run, make_text(run.budget, std::string(part)));
  } else {
    readers.emplace_back(run, bound[2]);
  }
  Keyed items;
  for (auto& item : items_of(run, x)) {
    std::vector<Value> key;
    for (const auto& reader : readers) {
      const Value part = reader.read(item);
      key.push_back(bound.truth(1, false) ? part : without_case(run, part));
    }
    items.emplace_back(make_list(run.budget, std::move(key)), std::move(item));
  }
  sort_by_key(run, items, reverse_of(bound, 0));
  return list_of_items(run, items);
}

Value dictsort(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = bound.has(1) ? bound.text(1) : "key";
  if (by != "key" && by != "value")
    fail("FilterArgumentError", "You can only sort by either \"key\" or \"value\"");
  check_defined(x);
  if (!x.is(Kind::dict))
    fail("AttributeError", fmt::format("'{}' object has no attribute 'items'", type_name(x)));
  Keyed items;
  for (const auto& [key, value] : x.dict().entries) {
    const Value part = by == "key" ? key : value;
    items.emplace_back(bound.truth(0, false) ? part : without_case(run, part),
                       make_tuple(run.budget, {key, value}));
  }
  sort_by_key(run, items, reverse_of(bound, 2));
  return list_of_items(run, items);
}

void fill_unique(Runtime& run, const Value& x, const AttributeReader& reader, bool minds_case,
                 std::vector<Value>& out) {
  std::unordered_multimap<uint64_t, Value> seen;
  Items items(run, x);
  for (Value item; items.next(item);) {
    const Value part = reader.read(item);
    Value key = minds_case ? part : without_case(run, part);
    const uint64_t hash = hash_of(run.budget, key);
    const auto [first, last] = seen.equal_range(hash);
    if (std::any_of(first, last,
                    [&](const auto& y) { return is_equal(run.budget, y.second, key); }))
      continue;
    seen.emplace(hash, std::move(key));
    out.push_back(std::move(item));
  }
}

Value unique_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  const AttributeReader reader(run, bound[1]);
  return make_lazy(run, [&](std::vector<Value>& out) {
    fill_unique(run, x, reader, bound.truth(0, false), out);
  });
}

template <bool t_is_max>
Value extreme(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound(t_is_max ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const AttributeReader reader(run, bound[1]);
  Value best, best_key;
  for (auto& item : items_of(run, x)) {
    const Value part = reader.read(item);
    const Value key = bound.truth(0, false) ? part : without_case(run, part);
    const bool is_better =
        best.is(Kind::missing) ||
        (t_is_max ? is_less(run.budget, best_key, key) : is_less(run.budget, key, best_key));
    if (!is_better) continue;
    best = std::move(item);
    best_key = key;
  }
  return best.is(Kind::missing) ? Value::undefined("No aggregated item, sequence was empty.")
                                : best;
}

Value groupby(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const AttributeReader reader(run, bound[0]);
  Keyed items;
  for (auto& item : items_of(run, x)) {
    const Value part = reader.read_or(item, bound[1]);
    items.emplace_back(bound.truth(2, false) ? part : without_case(run, part), std::move(item));
  }
  sort_by_key(run, items, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < items.size();) {
    size_t end = i;
    std::vector<Value> members;
    while (end < items.size() && is_equal(run.budget, items[end].first, items[i].first))
      members.push_back(items[end++].second);
    if (end == i) members.push_back(items[end++].second);  // a key that is not equal to itself
    const Value key = reader.read_or(members.front(), bound[1]);
    const Value group = make_tuple(run.budget, {key, make_list(run.budget, std::move(members))});
    group.mutable_as<Sequence>().is_group = true;
    groups.push_back(group);
    i = end;
  }
  return make_list(run.budget, std::move(groups));
}

Value sum_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  const AttributeReader reader(run, bound[0]);
  Value total = bound.has(1) ? bound[1] : Value::integer(0);
  if (total.is(Kind::text)) fail("TypeError", "sum() can't sum strings [use ''.join(seq) instead]");
  Items items(run, x);
  for (Value item; items.next(item);) {
    const Value part = reader.read(item);
    check_defined(part);
    total = add_values(run, total, part);
  }
  return total;
}

Value first_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("first", arguments, {});
  Items items(run, x);
  Value item;
  return items.next(item) ? item : Value::undefined("No first item, sequence was empty.");
}

void check_reversible(const Value& x) {
  if (x.is(Kind::iterator) || !is_iterable(x))
    fail("TypeError", fmt::format("'{}' object is not reversible", type_name(x)));
}

Value last_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("last", arguments, {});
  check_reversible(x);
  auto items = items_of(run, x);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value reverse_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("reverse", arguments, {});
  if (x.is(Kind::text)) {
    run.budget.scan(x.text().size());
    return make_text(run.budget, reversed(x.text()), x.text_object().is_markup);
  }
  auto items = items_of(run, x);
  std::ranges::reverse(items);
  if (x.is(Kind::iterator)) return make_list(run.budget, std::move(items));
  const std::string name = x.is(Kind::list) ? "list_reverseiterator" : "reversed";
  return make_iterator(run.budget, name, std::move(items));
}

Value list_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("list", arguments, {});
  return make_list(run.budget, items_of(run, x));
}

Value length_filter(Runtime&, const Value& x, const Arguments& arguments) {
  const Bound bound("length", arguments, {});
  return Value::integer(static_cast<Integer>(length_of(x)));
}

Value items_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("items", arguments, {});
  std::vector<Value> out;
  if (x.is(Kind::dict))
    for (const auto& [key, value] : x.dict().entries)
      out.push_back(make_tuple(run.budget, {key, value}));
  Value iterator = make_iterator(run.budget, "generator", std::move(out));
  if (!x.is(Kind::dict) && !x.is(Kind::undefined))
    iterator.mutable_as<Iterator>().end = std::make_unique<Failure>(
        Failure{"TypeError", "Can only get item pairs from a mapping.", 0});
  return iterator;
}

Value join_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"});
  const AttributeReader reader(run, bound[1]);
  const std::string separator = bound.has(0) ? to_text(run.budget, bound[0]) : "";
  Items items(run, x);
  std::string all;
  bool is_first = true;
  for (Value item; items.next(item);) {
    if (!is_first) all += separator;
    is_first = false;
    const std::string part = to_text(run.budget, reader.read(item));
    run.budget.step(1 + (part.size() + separator.size()) / 1024);
    all += part;
    run.budget.check_text(all.size());
  }
  return make_text(run.budget, std::move(all));
}

size_t count_argument(Runtime& run, const Bound& bound, size_t most) {
  const Integer count = bound.whole(0, 0);
  if (count > static_cast<Integer>(most)) run.budget.check_room(SIZE_MAX, 1);
  return count > 0 ? static_cast<size_t>(count) : 0;
}

void fill_batches(Runtime& run, const Value& x, const Bound& bound, std::vector<Value>& batches) {
  const Integer size = bound.whole(0, 0);
  std::vector<Value> current;
  const auto finish = [&] {
    batches.push_back(make_list(run.budget, std::move(current)));
    current.clear();
  };
  for (auto& item : items_of(run, x)) {
    if (static_cast<Integer>(current.size()) == size) finish();
    current.push_back(std::move(item));
  }
  if (current.empty()) return;
  if (bound.has_value(1) && static_cast<Integer>(current.size()) < size)
    current.resize(count_argument(run, bound, 1'000'000), bound[1]);
  finish();
}

Value batch_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
  return make_lazy(run, [&](std::vector<Value>& out) { fill_batches(run, x, bound, out); });
}

void fill_slices(Runtime& run, const Value& x, const Bound& bound, std::vector<Value>& out) {
  const auto items = items_of(run, x);
  const size_t slices = count_argument(run, bound, 1'000'000);
  if (bound.whole(0, 0) == 0) fail("ZeroDivisionError", "integer division or modulo by zero");
  if (slices == 0) return;
  const size_t each = items.size() / slices, extra = items.size() % slices;
  size_t at = 0;
  for (size_t i = 0; i < slices; ++i) {
    const size_t size = each + (i < extra ? 1 : 0);
    std::vector<Value> part(items.begin() + static_cast<ptrdiff_t>(at),
                            items.begin() + static_cast<ptrdiff_t>(at + size));
    if (bound.has_value(1) && i >= extra) part.push_back(bound[1]);
    out.push_back(make_list(run.budget, std::move(part)));
    at += size;
  }
}

Value slice_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("slice", arguments, {"slices", "fill_with"}, 1);
  return make_lazy(run, [&](std::vector<Value>& out) { fill_slices(run, x, bound, out); });
}

constexpr FilterRow k_sequence_filters[] = {
    {"batch", batch_filter},     {"count", length_filter}, {"dictsort", dictsort},
    {"first", first_filter},     {"groupby", groupby},     {"items", items_filter},
    {"join", join_filter},       {"last", last_filter},    {"length", length_filter},
    {"list", list_filter},       {"max", extreme<true>},   {"min", extreme<false>},
    {"reverse", reverse_filter}, {"slice", slice_filter},  {"sort", sort_filter},
    {"sum", sum_filter},         {"unique", unique_filter}};

}  // namespace

std::span<const FilterRow> sequence_filters() { return k_sequence_filters; }

}  // namespace cohort::text::jinja
