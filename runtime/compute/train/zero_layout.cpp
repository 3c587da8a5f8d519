#include "runtime/compute/train/zero_layout.hpp"

#include <algorithm>

namespace cohort::compute {
namespace {

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

}  // namespace

ZeroLayout::ZeroLayout(const ParameterLayout& layout, int ranks, int expert_ways)
    : ranks_(ranks), expert_ways_(expert_ways) {
  const auto is_cut_expert = [&](size_t spec) {
    return expert_ways > 1 && layout.specs[spec].expert >= 0;
  };
  int64_t next = 0;
  for (size_t spec = 0; spec < layout.specs.size(); ++spec) {
    const ParameterSpec& of = layout.specs[spec];
    if (of.is_stacked) {  // up follows its gate, cut with it
      const Cut& gate = cuts_.back();
      cuts_.push_back({of.count, gate.count, gate.width, gate.shard_begin, gate.stride});
      continue;
    }
    const bool has_up = spec + 1 < layout.specs.size() && layout.specs[spec + 1].is_stacked;
    const int64_t whole = of.count + (has_up ? layout.specs[spec + 1].count : 0);
    const int stride = is_cut_expert(spec) ? expert_ways : 1;
    const int64_t width = divide_up(whole, ranks / stride);
    cuts_.push_back({of.count, 0, width, ranks == 1 ? of.offset : next, stride});
    next += width;
  }
  shard_elements_ = ranks == 1 ? layout.total_elements : divide_up(next, k_alignment) * k_alignment;
  for (size_t spec = 0; spec < cuts_.size(); ++spec)
    if (spec == 0 || layout.specs[spec].layer != layout.specs[spec - 1].layer ||
        is_cut_expert(spec) != is_cut_expert(spec - 1))
      units_.push_back(
          {spec, 0, layout.specs[spec].offset, 0, cuts_[spec].shard_begin, 0, is_cut_expert(spec)});
  const int64_t total = layout.total_elements;
  for (size_t i = 0; i < units_.size(); ++i) {
    const ZeroUnit* after = i + 1 < units_.size() ? &units_[i + 1] : nullptr;
    units_[i].end_spec = after != nullptr ? after->first_spec : cuts_.size();
    units_[i].end = after != nullptr ? after->begin : total;
    const int64_t shard_end = after != nullptr ? after->shard_begin : ranks == 1 ? total : next;
    units_[i].shard_count = shard_end - units_[i].shard_begin;
  }
}

std::vector<int> ZeroLayout::sharers(const ZeroUnit& unit, int rank) const {
  const int stride = unit.is_experts ? expert_ways_ : 1;
  std::vector<int> out;
  for (int other = rank % stride; other < ranks_; other += stride) out.push_back(other);
  return out;
}

TensorPart ZeroLayout::part(size_t spec, int rank) const {
  const Cut& cut = cuts_[spec];
  auto inside = [&](int64_t at) { return std::clamp<int64_t>(at - cut.before, 0, cut.count); };
  const int index = holder(spec, rank);
  return {inside(cut.width * index), inside(cut.width * (index + 1))};
}

int64_t ZeroLayout::shard_offset(size_t spec, int rank) const {
  const Cut& cut = cuts_[spec];
  const int64_t at = cut.before + part(spec, rank).begin - cut.width * holder(spec, rank);
  return cut.shard_begin + std::clamp<int64_t>(at, 0, cut.width);
}

int64_t ZeroLayout::largest_unit_part() const {
  int64_t most = 0;
  for (const ZeroUnit& unit : units_)
    if (sharers(unit, 0).size() > 1) most = std::max(most, unit.shard_count);
  return most;
}

}  // namespace cohort::compute
