#include "runtime/plan/reshard/reshard_shards.hpp"

#include <algorithm>

namespace cohort::plan {

Interval intersect(Interval a, Interval b) {
  Interval x{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return x.begin < x.end ? x : Interval{};
}

Interval family_layers(const TensorSpec& spec) {
  if (spec.where != TensorSpec::Where::layers) return {0, 1};
  return {spec.first_layer, spec.end_layer};
}

uint32_t family_experts(const TensorSpec& spec) { return std::max(spec.experts, 1u); }

uint64_t flat_inside(const TensorSpec& spec, Interval box, uint64_t flat, Interval inside) {
  uint64_t row = box.size() * spec.inner, width = inside.size() * spec.inner;
  uint64_t before = (inside.begin - box.begin) * spec.inner, in_row = flat % row;
  return flat / row * width + std::clamp(in_row, before, before + width) - before;
}

Shards::Shards(const ModelTensors& model, const ShardLayout& layout)
    : model_(&model), layout_(&layout), stage_begin_(layout.pp + 1, 0) {
  for (uint32_t stage = 0; stage < layout.pp; ++stage)
    stage_begin_[stage + 1] =
        stage_begin_[stage] + (layout.layers_per_stage.empty() ? model.layers / layout.pp
                                                               : layout.layers_per_stage[stage]);
  fill_experts();
  fill_offsets();
}

void Shards::fill_experts() {
  for (const TensorSpec& spec : model_->tensors) experts_ = std::max(experts_, spec.experts);
  if (experts_ == 0) return;
  uint32_t replicas = layout_->expert_replicas(), per_slot = experts_ / layout_->ep;
  held_.resize(size_t{replicas} * experts_);
  index_.resize(held_.size());
  slot_.resize(held_.size());
  for (uint32_t replica = 0; replica < replicas; ++replica) {
    size_t row = size_t{replica} * experts_;
    std::vector<uint32_t> count(layout_->ep, 0);
    for (uint32_t expert = 0; expert < experts_; ++expert) {
      const auto& rows = layout_->expert_slots;
      uint32_t slot =
          rows.empty() ? expert / per_slot : rows[rows.size() == 1 ? 0 : replica][expert];
      slot_[row + expert] = slot;
      index_[row + expert] = count[slot];
      held_[row + size_t{slot} * per_slot + count[slot]++] = expert;
    }
  }
}

void Shards::fill_offsets() {
  size_t families = model_->tensors.size();
  offsets_.assign(layout_->ranks.size() * (families + 1), 0);
  for (uint32_t position = 0; position < layout_->ranks.size(); ++position) {
    Place at = place(position);
    uint64_t* row = &offsets_[position * (families + 1)];
    for (size_t family = 0; family < families; ++family) {
      const TensorSpec& spec = model_->tensors[family];
      uint64_t experts = spec.experts > 0 ? spec.experts / layout_->ep : 1;
      row[family + 1] =
          row[family] + layers(spec, at.stage).size() * experts * part_bytes(spec, at);
    }
  }
}

Shards::Place Shards::place(uint32_t position) const {
  const ShardLayout& x = *layout_;
  Place at;
  at.tp = position % x.tp;
  uint32_t rest = position / x.tp;
  at.dp = rest % x.dp;
  at.stage = rest / x.dp;
  uint32_t in_stage = at.tp + x.tp * at.dp;
  at.expert_tp = in_stage % x.expert_tp;
  at.ep = in_stage / x.expert_tp % x.ep;
  at.replica = in_stage / (x.expert_tp * x.ep);
  return at;
}

uint32_t Shards::position(uint32_t stage, uint32_t in_stage) const {
  return in_stage + layout_->stage_width() * stage;
}

uint32_t Shards::dense_position(uint32_t stage, uint32_t tp, uint32_t dp) const {
  return position(stage, tp + layout_->tp * dp);
}

uint32_t Shards::expert_position(uint32_t stage, uint32_t expert_tp, uint32_t ep,
                                 uint32_t replica) const {
  return position(stage, expert_tp + layout_->expert_tp * (ep + layout_->ep * replica));
}

Interval Shards::stage_layers(uint32_t stage) const {
  return {stage_begin_[stage], stage_begin_[stage + 1]};
}

Interval Shards::layers(const TensorSpec& spec, uint32_t stage) const {
  bool is_first = stage == 0, is_last = stage + 1 == layout_->pp;
  switch (spec.where) {
    case TensorSpec::Where::layers:
      return intersect(family_layers(spec), stage_layers(stage));
    case TensorSpec::Where::first_stage:
      return {0, is_first ? 1u : 0u};
    case TensorSpec::Where::last_stage:
      return {0, is_last ? 1u : 0u};
    case TensorSpec::Where::both_ends:
      return {0, is_first || is_last ? 1u : 0u};
  }
  return {};
}

std::vector<uint32_t> Shards::owners(const TensorSpec& spec, uint64_t layer) const {
  uint32_t last = layout_->pp - 1;
  if (spec.where == TensorSpec::Where::first_stage) return {0};
  if (spec.where == TensorSpec::Where::last_stage) return {last};
  if (spec.where == TensorSpec::Where::both_ends)
    return last == 0 ? std::vector<uint32_t>{0} : std::vector<uint32_t>{0, last};
  // Stages may be empty: the last of those that begin at or before the layer holds it.
  auto next = std::upper_bound(stage_begin_.begin(), stage_begin_.end() - 1, layer);
  return {static_cast<uint32_t>(next - stage_begin_.begin() - 1)};
}

uint32_t Shards::slot(uint32_t replica, uint32_t expert) const {
  return slot_[size_t{replica} * experts_ + expert];
}

std::span<const uint32_t> Shards::experts(uint32_t replica, uint32_t ep) const {
  size_t per_slot = experts_ / layout_->ep;
  return {held_.data() + size_t{replica} * experts_ + ep * per_slot, per_slot};
}

uint32_t Shards::slicing_degree(const TensorSpec& spec) const {
  return spec.kind == TensorSpec::Kind::expert ? layout_->expert_tp : layout_->tp;
}

uint32_t Shards::slices(const TensorSpec& spec) const {
  if (spec.kind == TensorSpec::Kind::replicated) return 1;
  return std::min(slicing_degree(spec), spec.parts);
}

Interval Shards::slice(const TensorSpec& spec, uint32_t index) const {
  uint64_t width = spec.split / slices(spec);
  return {width * index, width * (index + 1)};
}

uint32_t Shards::slice_of(const TensorSpec& spec, const Place& at) const {
  uint32_t coordinate = spec.kind == TensorSpec::Kind::expert ? at.expert_tp : at.tp;
  return coordinate / (slicing_degree(spec) / slices(spec));
}

uint32_t Shards::cuts(const TensorSpec& spec) const {
  if (layout_->zero_stage < 3) return 1;
  return spec.kind == TensorSpec::Kind::expert ? layout_->expert_replicas() : layout_->dp;
}

Interval Shards::cut(const TensorSpec& spec, uint32_t index) const {
  uint64_t elements = spec.outer * (spec.split / slices(spec)) * spec.inner;
  uint64_t part = (elements + cuts(spec) - 1) / cuts(spec);
  return {std::min(part * index, elements), std::min(part * (index + 1), elements)};
}

uint32_t Shards::cut_of(const TensorSpec& spec, const Place& at) const {
  if (layout_->zero_stage < 3) return 0;
  return spec.kind == TensorSpec::Kind::expert ? at.replica : at.dp;
}

uint64_t Shards::part_bytes(const TensorSpec& spec, const Place& at) const {
  return cut(spec, cut_of(spec, at)).size() * spec.element_bytes;
}

uint64_t Shards::bytes(uint32_t position) const {
  size_t families = model_->tensors.size();
  return offsets_[position * (families + 1) + families];
}

uint64_t Shards::offset(uint32_t position, uint32_t family, uint64_t layer, uint32_t expert) const {
  const TensorSpec& spec = model_->tensors[family];
  Place at = place(position);
  uint64_t index = layer - layers(spec, at.stage).begin;
  if (spec.experts > 0)
    index = index * (experts_ / layout_->ep) + index_[size_t{at.replica} * experts_ + expert];
  return offsets_[position * (model_->tensors.size() + 1) + family] + index * part_bytes(spec, at);
}

}  // namespace cohort::plan
