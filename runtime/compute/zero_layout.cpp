#include "runtime/compute/zero_layout.hpp"

#include <algorithm>

namespace cohort::compute {
namespace {

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

/// Flat offsets at which units begin, ascending; the last ends with the buffer.
std::vector<int64_t> unit_begins(const ParameterLayout& layout) {
  std::vector<int64_t> begins = {layout.embedding};
  for (const LayerOffsets& layer : layout.layers) begins.push_back(layer.input_norm);
  begins.push_back(layout.final_norm);
  return begins;
}

}  // namespace

ZeroLayout::ZeroLayout(const ParameterLayout& layout, int ranks) : ranks_(ranks) {
  int64_t next = 0;
  for (const ParameterSpec& spec : layout.specs) {
    counts_.push_back(spec.count);
    offsets_.push_back(ranks == 1 ? spec.offset : next);
    next += divide_up(spec.count, ranks);
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
    unit.shard_begin = offsets_[unit.first_spec];
    const int64_t end = spec < offsets_.size() ? offsets_[spec] : (ranks == 1 ? unit.end : next);
    unit.shard_count = end - unit.shard_begin;
    units_.push_back(unit);
  }
}

TensorPart ZeroLayout::part(size_t spec, int rank) const {
  const int64_t width = divide_up(counts_[spec], ranks_);
  return {std::min(width * rank, counts_[spec]), std::min(width * (rank + 1), counts_[spec])};
}

int64_t ZeroLayout::largest_unit_part() const {
  int64_t most = 0;
  for (const ZeroUnit& unit : units_) most = std::max(most, unit.shard_count);
  return most;
}

}  // namespace cohort::compute
