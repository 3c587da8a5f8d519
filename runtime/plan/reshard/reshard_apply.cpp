#include "runtime/plan/reshard/reshard_apply.hpp"

#include <algorithm>

#include "runtime/base/check.hpp"
#include "runtime/plan/reshard/reshard_build.hpp"

namespace cohort::plan {
namespace {

/// One part of a tensor: [outer, slice, inner], of that, flat, the elements of cut; at byte `base`.
struct Part {
  Interval slice, cut;
  uint64_t base = 0;
};

void append(std::vector<CopyRun>& runs, const CopyRun& x) {
  if (x.bytes == 0) return;
  if (!runs.empty()) {
    CopyRun& last = runs.back();
    if (last.count == 1 && x.count == 1 && last.packed + last.bytes == x.packed &&
        last.shard + last.bytes == x.shard) {
      last.bytes += x.bytes;
      return;
    }
  }
  runs.push_back(x);
}

/// Appends what elements `moved` (flat in `box`, packed from byte `packed` on) share with a part.
void append_shared(const TensorSpec& spec, Interval box, Interval moved, uint64_t packed,
                   const Part& part, std::vector<CopyRun>& runs) {
  Interval both = intersect(box, part.slice);
  if (both.size() == 0) return;
  Interval shared = intersect(
      {flat_inside(spec, box, moved.begin, both), flat_inside(spec, box, moved.end, both)},
      {flat_inside(spec, part.slice, part.cut.begin, both),
       flat_inside(spec, part.slice, part.cut.end, both)});
  uint64_t width = both.size() * spec.inner, box_row = box.size() * spec.inner;
  uint64_t part_row = part.slice.size() * spec.inner, element = spec.element_bytes;
  if (width == box_row && width == part_row) width = std::max(shared.end, uint64_t{1});  // dense
  auto run_at = [&](uint64_t flat, uint64_t elements) {
    uint64_t row = flat / width, in_row = flat % width;
    uint64_t in_box = row * box_row + (both.begin - box.begin) * spec.inner + in_row;
    uint64_t in_part = row * part_row + (both.begin - part.slice.begin) * spec.inner + in_row;
    return CopyRun{packed + (in_box - moved.begin) * element,
                   part.base + (in_part - part.cut.begin) * element, elements * element};
  };
  uint64_t at = shared.begin;
  if (at < shared.end && at % width != 0) {  // the rest of a row
    uint64_t rest = std::min(width - at % width, shared.end - at);
    append(runs, run_at(at, rest));
    at += rest;
  }
  uint64_t rows = (shared.end - std::min(at, shared.end)) / width;
  if (rows > 0) {
    CopyRun run = run_at(at, width);
    if (rows > 1) {
      run.count = rows;
      run.packed_stride = box_row * element;
      run.shard_stride = part_row * element;
    }
    append(runs, run);
    at += rows * width;
  }
  if (at < shared.end) append(runs, run_at(at, shared.end - at));
}

/// Calls f(layer, expert, elements of the box, first packed byte) for each unit.
template <class F>
void each_unit(const TensorSpec& spec, const ReshardPiece& piece, const ReshardTransfer& x, F f) {
  uint64_t experts = piece.end_expert - piece.first_expert, packed = 0;
  for (uint64_t unit = x.first_unit; unit < x.end_unit; ++unit) {
    Interval moved = chunk_of(piece, unit / experts % piece.chunks);
    f(piece.first_layer + unit / (experts * piece.chunks),
      static_cast<uint32_t>(piece.first_expert + unit % experts), moved, packed);
    packed += moved.size() * spec.element_bytes;
  }
}

std::vector<uint32_t> positions(const ReshardPlan& plan, const ShardLayout& layout) {
  std::vector<uint32_t> by_card(plan.cards.size(), k_no_position);
  for (uint32_t position = 0; position < layout.ranks.size(); ++position)
    by_card[std::ranges::lower_bound(plan.cards, layout.ranks[position]) - plan.cards.begin()] =
        position;
  return by_card;
}

}  // namespace

ReshardCopies::ReshardCopies(const ReshardPlan& plan)
    : plan_(&plan),
      before_(plan.model, plan.from),
      after_(plan.model, plan.to),
      position_before_(positions(plan, plan.from)),
      position_after_(positions(plan, plan.to)) {}

uint64_t ReshardCopies::bytes_before(uint32_t card) const {
  uint32_t position = position_before_[card];
  return position == k_no_position ? 0 : before_.bytes(position);
}

uint64_t ReshardCopies::bytes_after(uint32_t card) const {
  uint32_t position = position_after_[card];
  return position == k_no_position ? 0 : after_.bytes(position);
}

uint64_t ReshardCopies::packed_bytes(const ReshardTransfer& x) const {
  const ReshardPiece& piece = plan_->pieces[x.piece];
  return (elements_before(piece, x.end_unit) - elements_before(piece, x.first_unit)) *
         plan_->model.tensors[piece.family].element_bytes;
}

std::vector<ReshardCopies::Unit> ReshardCopies::source_parts(const ReshardTransfer& x) const {
  COHORT_CHECK(x.source != ReshardTransfer::Source::staging,
               "RESHARD-4: staged bytes have no place in a layout");
  return parts(x, before_, position_before_[x.from]);
}

std::vector<ReshardCopies::Unit> ReshardCopies::target_parts(const ReshardTransfer& x) const {
  return parts(x, after_, position_after_[x.to]);
}

std::vector<ReshardCopies::Unit> ReshardCopies::parts(const ReshardTransfer& x,
                                                      const Shards& shards,
                                                      uint32_t position) const {
  std::vector<Unit> result;
  if (position == k_no_position) return result;
  const ReshardPiece& piece = plan_->pieces[x.piece];
  const TensorSpec& spec = plan_->model.tensors[piece.family];
  Shards::Place at = shards.place(position);
  Interval layers = shards.layers(spec, at.stage);
  Part part{shards.slice(spec, shards.slice_of(spec, at)),
            shards.cut(spec, shards.cut_of(spec, at)), 0};
  each_unit(spec, piece, x, [&](uint64_t layer, uint32_t expert, Interval moved, uint64_t packed) {
    if (layer < layers.begin || layer >= layers.end) return;
    if (spec.experts > 0 && shards.slot(at.replica, expert) != at.ep) return;
    result.push_back({layer, expert, packed, {}});
    append_shared(spec, {piece.split_begin, piece.split_end}, moved, packed, part,
                  result.back().runs);
  });
  return result;
}

std::vector<ReshardCopies::Unit> ReshardCopies::units(const ReshardTransfer& x) const {
  std::vector<Unit> result;
  const ReshardPiece& piece = plan_->pieces[x.piece];
  const TensorSpec& spec = plan_->model.tensors[piece.family];
  Part whole{{0, spec.split}, {0, spec.outer * spec.split * spec.inner}, 0};
  each_unit(spec, piece, x, [&](uint64_t layer, uint32_t expert, Interval moved, uint64_t packed) {
    result.push_back({layer, expert, packed, {}});
    append_shared(spec, {piece.split_begin, piece.split_end}, moved, packed, whole,
                  result.back().runs);
  });
  return result;
}

}  // namespace cohort::plan
