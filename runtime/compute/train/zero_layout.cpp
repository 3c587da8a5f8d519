#include "runtime/compute/train/zero_layout.hpp"

#include <algorithm>

namespace cohort::compute {
namespace {

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

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
  for (size_t spec = 0; spec < cuts_.size(); ++spec)
    if (spec == 0 || layout.specs[spec].layer != layout.specs[spec - 1].layer)
      units_.push_back({spec, 0, layout.specs[spec].offset, 0, cuts_[spec].shard_begin, 0});
  const int64_t total = layout.total_elements;
  for (size_t i = 0; i < units_.size(); ++i) {
    const ZeroUnit* after = i + 1 < units_.size() ? &units_[i + 1] : nullptr;
    units_[i].end_spec = after != nullptr ? after->first_spec : cuts_.size();
    units_[i].end = after != nullptr ? after->begin : total;
    const int64_t shard_end = after != nullptr ? after->shard_begin : ranks == 1 ? total : next;
    units_[i].shard_count = shard_end - units_[i].shard_begin;
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
