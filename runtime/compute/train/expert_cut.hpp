#pragma once
/// Who holds which routed experts when a training group cuts them over its ranks. Pure, torch-free
/// value types.
///
/// EP-1: with W ways rank r is slot r % W of replica r / W (plan::ShardLayout's order); each slot
/// holds E / W consecutive experts of every layer, and every tensor that is no expert's. EP-2: the
/// layouts of all slots are alike but for the numbers of the experts: a tensor has the same index,
/// offset and count in each. Both hold for a model and for an adapter over it.
#include <cstddef>
#include <functional>
#include <vector>

#include "runtime/compute/model/model_layout.hpp"

namespace cohort::compute {

class ExpertCut {
 public:
  /// One slot holds `whole`.
  explicit ExpertCut(ParameterLayout whole = {});
  /// Cuts what `layout_of` lays out for a range of a layer's experts. REQUIRES: ways > 1 divides
  /// `experts`, those of a layer.
  using LayoutOf = std::function<ParameterLayout(ExpertRange)>;
  ExpertCut(int64_t experts, int ways, const LayoutOf& layout_of);

  int ways() const { return ways_; }
  bool is_cut() const { return ways_ > 1; }
  int slot_of(int rank) const { return rank % ways_; }
  /// Returns the first rank of the replica that `rank` is in.
  int first_of(int rank) const { return rank / ways_ * ways_; }
  /// Experts of a layer that a slot holds.
  int64_t experts_per_slot() const { return experts_per_slot_; }
  /// Returns the experts of a layer that a slot holds.
  ExpertRange held_by(int slot) const;
  /// The layout of all experts: what hashes and checkpoints are in.
  const ParameterLayout& whole() const { return whole_; }
  ParameterLayout layout_of_slot(int slot) const;
  /// Returns the index in whole() of tensor `spec` of a slot's layout.
  size_t whole_spec(int slot, size_t spec) const {
    return whole_specs_[static_cast<size_t>(slot)][spec];
  }

 private:
  int ways_ = 1;
  int64_t experts_per_slot_ = 0;
  ParameterLayout whole_;
  std::vector<ParameterLayout> slots_;            // empty: whole_ is the one slot's
  std::vector<std::vector<size_t>> whole_specs_;  // [slot][spec]
};

}  // namespace cohort::compute
