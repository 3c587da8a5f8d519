#pragma once
/// The filters by kind; find_filter looks through them. Thread-safe: constants.
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/template/runtime.hpp"

namespace cohort::text::jinja {

using FilterRow = std::pair<std::string_view, Filter>;
std::span<const FilterRow> text_filters();
std::span<const FilterRow> sequence_filters();
std::span<const FilterRow> selection_filters();
std::span<const FilterRow> number_filters();

/// Reads an attribute "a.b.0" of each item: map, sort, groupby and others take one.
class AttributeReader {
 public:
  /// `attribute`: a text, an integer, or missing for the item itself.
  AttributeReader(Runtime& run, const Value& attribute);
  Value read(const Value& item) const;
  /// Takes `otherwise` for what is undefined on the way.
  Value read_or(const Value& item, const Value& otherwise) const;

 private:
  Runtime& run_;
  std::vector<Value> parts_;
};

/// Makes an iterator of what `fill` appends. What it fails with comes at its place, as in Python,
/// where nothing is made before it is asked for.
Value make_lazy(Runtime& run, const std::function<void(std::vector<Value>&)>& fill);

/// A text in lower case, anything else as it is: how Jinja sorts.
Value without_case(Runtime& run, const Value& x);

}  // namespace cohort::text::jinja
