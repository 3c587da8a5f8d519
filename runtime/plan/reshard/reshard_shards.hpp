#pragma once
/// Geometry of a checked layout: coordinates of a position, slices, flat cuts, owners, and offsets
/// in a card's buffer. Pure; keeps references to the model and the layout, which must outlive it.
/// Memory: 8 bytes per family and position, 4 per expert and replica.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/plan/reshard/reshard_layout.hpp"

namespace cohort::plan {

/// [begin, end).
struct Interval {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end > begin ? end - begin : 0; }
  bool operator==(const Interval&) const = default;
};
Interval intersect(Interval a, Interval b);

/// The families of a layer, or an end of the model, are a pseudo layer 0 of one tensor.
Interval family_layers(const TensorSpec& spec);
/// 1 for a family without routed experts.
uint32_t family_experts(const TensorSpec& spec);

/// Returns the elements of `inside`, a part of `box` (both ranges of the split dimension), that lie
/// before element `flat` of the box taken flat.
uint64_t flat_inside(const TensorSpec& spec, Interval box, uint64_t flat, Interval inside);

class Shards {
 public:
  struct Place {
    uint32_t stage = 0, tp = 0, dp = 0;
    uint32_t expert_tp = 0, ep = 0, replica = 0;
  };
  Shards(const ModelTensors& model, const ShardLayout& layout);
  const ModelTensors& model() const { return *model_; }
  const ShardLayout& layout() const { return *layout_; }

  Place place(uint32_t position) const;
  uint32_t position(uint32_t stage, uint32_t in_stage) const;
  uint32_t dense_position(uint32_t stage, uint32_t tp, uint32_t dp) const;
  uint32_t expert_position(uint32_t stage, uint32_t expert_tp, uint32_t ep, uint32_t replica) const;

  /// The layers of the family that `stage` holds.
  Interval layers(const TensorSpec& spec, uint32_t stage) const;
  Interval stage_layers(uint32_t stage) const;
  /// The stages (one, or both ends) that hold a layer of the family.
  std::vector<uint32_t> owners(const TensorSpec& spec, uint64_t layer) const;

  uint32_t slot(uint32_t replica, uint32_t expert) const;
  /// The experts of a slot, ascending.
  std::span<const uint32_t> experts(uint32_t replica, uint32_t ep) const;

  /// Different slices of the family; its holders over TP (expert: ETP) may be more.
  uint32_t slices(const TensorSpec& spec) const;
  Interval slice(const TensorSpec& spec, uint32_t index) const;
  uint32_t slice_of(const TensorSpec& spec, const Place& place) const;
  /// Degree of the group that cuts `split`: TP, for experts ETP.
  uint32_t slicing_degree(const TensorSpec& spec) const;
  /// Flat parts of each slice: 1 below ZeRO stage 3.
  uint32_t cuts(const TensorSpec& spec) const;
  Interval cut(const TensorSpec& spec, uint32_t index) const;
  uint32_t cut_of(const TensorSpec& spec, const Place& place) const;

  uint64_t bytes(uint32_t position) const;
  /// Byte offset of the card's part of one tensor in its buffer; the card must hold it.
  uint64_t offset(uint32_t position, uint32_t family, uint64_t layer, uint32_t expert) const;

 private:
  uint64_t part_bytes(const TensorSpec& spec, const Place& place) const;
  void fill_experts();
  void fill_offsets();
  const ModelTensors* model_;
  const ShardLayout* layout_;
  uint32_t experts_ = 0;
  std::vector<uint64_t> stage_begin_;
  std::vector<uint32_t> held_;     // [replica][slot][experts / ep], ascending in a slot
  std::vector<uint32_t> index_;    // [replica][expert] = place in its slot
  std::vector<uint32_t> slot_;     // [replica][expert]
  std::vector<uint64_t> offsets_;  // [position][family + 1]
};

}  // namespace cohort::plan
