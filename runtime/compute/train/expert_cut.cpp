#include "runtime/compute/train/expert_cut.hpp"

#include <numeric>
#include <utility>

namespace cohort::compute {

ExpertCut::ExpertCut(ParameterLayout whole) : whole_(std::move(whole)) {
  std::vector<size_t>& all = whole_specs_.emplace_back(whole_.specs.size());
  std::iota(all.begin(), all.end(), size_t{0});
}

ExpertCut::ExpertCut(int64_t experts, int ways, const LayoutOf& layout_of)
    : ways_(ways), experts_per_slot_(experts / ways), whole_(layout_of({})) {
  for (int slot = 0; slot < ways; ++slot) {
    const ExpertRange held = held_by(slot);
    slots_.push_back(layout_of(held));
    std::vector<size_t>& specs = whole_specs_.emplace_back();
    for (size_t spec = 0; spec < whole_.specs.size(); ++spec) {
      const int64_t expert = whole_.specs[spec].expert;
      if (expert < 0 || (held.first <= expert && expert < held.end)) specs.push_back(spec);
    }
  }
}

ExpertRange ExpertCut::held_by(int slot) const {
  if (!is_cut()) return {};
  return {slot * experts_per_slot_, (slot + 1) * experts_per_slot_};
}

ParameterLayout ExpertCut::layout_of_slot(int slot) const {
  return is_cut() ? slots_[static_cast<size_t>(slot)] : whole_;
}

}  // namespace cohort::compute
