#include "runtime/compute/train/zero_layout.hpp"

#include <algorithm>

namespace cohort::compute {
namespace {

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

/// Flat offsets at which units begin, ascending; the last ends with the buffer.
std::vector<int64_t> unit_begins(const ParameterLayout& layout) {
  std::vector<int64_t> begins = {layout.specs.front().offset};
  for (size_t i = 1; i < layout.specs.size(); ++i)
    if (layout.specs[i].layer != layout.specs[i - 1].layer)
      begins.push_back(layout.specs[i].offset);
  return begins;
}

}  // namespace

ZeroLayout::ZeroLayout(const ParameterLayout& layout, int ranks) : ranks_(ranks) {
  int64_t next = 0;
  for (size_t spec = 0; spec < layout.specs.size(); ++spec) {
    const ParameterSpec& of = layout.specs[spec];
    if (of.is_stacked) {  // up follows its gate, cut with it
      const Cut& gate = cuts_.back();
      cuts_.push_back({of.count, gate.count, gate.width, gate.shard_begin});
      continue;
    }
    const bool has_up = spec + 1 < layout.specs.size() && layout.specs[spec + 1].is_stacked;
    const int64_t whole = of.count + (has_up ? layout.specs[spec + 1].count : 0);
    const int64_t width = divide_up(whole, ranks);
    cuts_.push_back({of.count, 0, width, ranks == 1 ? of.offset : next});
    next += width;
  }
  shard_elements_ = ranks == 1 ? layout.total_elements : divide_up(next, k_alignment) * k_alignment;
  const std::vector<int64_t> begins = unit_begins(layout);
  size_t spec = 0;
  for (size_t i = 0; i < begins.size(); ++i) {
    ZeroUnit unit;
    unit.first_spec = spec;
    unit.begin = begins[i];
    unit.end = i + 1 < begins.size() ? begins[i + 1] : layout.total_elements;
    while (spec < layout.specs.size() && layout.specs[spec].offset < unit.end) ++spec;
    unit.end_spec = spec;
    unit.shard_begin = cuts_[unit.first_spec].shard_begin;
    const int64_t last = ranks == 1 ? layout.total_elements : next;
    const int64_t end = spec < cuts_.size() ? cuts_[spec].shard_begin : last;
    unit.shard_count = end - unit.shard_begin;
    units_.push_back(unit);
  }
}

TensorPart ZeroLayout::part(size_t spec, int rank) const {
  const Cut& cut = cuts_[spec];
  auto inside = [&](int64_t at) { return std::clamp<int64_t>(at - cut.before, 0, cut.count); };
  return {inside(cut.width * rank), inside(cut.width * (rank + 1))};
}

int64_t ZeroLayout::shard_offset(size_t spec, int rank) const {
  const Cut& cut = cuts_[spec];
  const int64_t at = cut.before + part(spec, rank).begin - cut.width * rank;
  return cut.shard_begin + std::clamp<int64_t>(at, 0, cut.width);
}

int64_t ZeroLayout::largest_unit_part() const {
  int64_t most = 0;
  for (const ZeroUnit& unit : units_) most = std::max(most, unit.shard_count);
  return most;
}

}  // namespace cohort::compute
