#include "runtime/plan/reshard/reshard_build.hpp"

#include <algorithm>

namespace cohort::plan {
namespace {

/// floor(length * index / parts) without overflow.
uint64_t cut_point(uint64_t length, uint64_t index, uint64_t parts) {
  return length / parts * index + length % parts * index / parts;
}

}  // namespace

Interval chunk_of(const ReshardPiece& piece, uint64_t chunk) {
  uint64_t length = piece.flat_end - piece.flat_begin;
  return {piece.flat_begin + cut_point(length, chunk, piece.chunks),
          piece.flat_begin + cut_point(length, chunk + 1, piece.chunks)};
}

uint64_t elements_before(const ReshardPiece& piece, uint64_t unit) {
  uint64_t experts = piece.end_expert - piece.first_expert, per_layer = experts * piece.chunks;
  uint64_t length = piece.flat_end - piece.flat_begin;
  uint64_t layer = unit / per_layer, chunk = unit % per_layer / experts, expert = unit % experts;
  Interval part = chunk_of(piece, chunk);
  return (layer * length + part.begin - piece.flat_begin) * experts + expert * part.size();
}

uint64_t shared_elements(const TensorSpec& spec, const Shards& a, const Shards::Place& at_a,
                         const Shards& b, const Shards::Place& at_b) {
  Interval slice_a = a.slice(spec, a.slice_of(spec, at_a));
  Interval slice_b = b.slice(spec, b.slice_of(spec, at_b));
  Interval both = intersect(slice_a, slice_b);
  if (both.size() == 0) return 0;
  Interval cut_a = a.cut(spec, a.cut_of(spec, at_a)), cut_b = b.cut(spec, b.cut_of(spec, at_b));
  return intersect({flat_inside(spec, slice_a, cut_a.begin, both),
                    flat_inside(spec, slice_a, cut_a.end, both)},
                   {flat_inside(spec, slice_b, cut_b.begin, both),
                    flat_inside(spec, slice_b, cut_b.end, both)})
      .size();
}

std::vector<Interval> layer_ranges(const TensorSpec& spec, const Shards& from, const Shards& to) {
  Interval all = family_layers(spec);
  if (all.size() == 0) return {};
  std::vector<uint64_t> edges{all.begin, all.end};
  if (spec.where == TensorSpec::Where::layers)
    for (const Shards* shards : {&from, &to})
      for (uint32_t stage = 0; stage < shards->layout().pp; ++stage) {
        uint64_t edge = shards->stage_layers(stage).begin;
        if (edge > all.begin && edge < all.end) edges.push_back(edge);
      }
  std::ranges::sort(edges);
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  std::vector<Interval> ranges;
  for (size_t i = 0; i + 1 < edges.size(); ++i) ranges.push_back({edges[i], edges[i + 1]});
  return ranges;
}

ReshardBuilder::ReshardBuilder(ReshardPlan& plan, const Shards& from, const Shards& to,
                               const ReshardOptions& options)
    : plan_(&plan), from_(&from), to_(&to), options_(options) {
  fill_cards();
  fill_bounds();
}

void ReshardBuilder::fill_cards() {
  const auto &before = from_->layout().ranks, &after = to_->layout().ranks;
  auto& cards = plan_->cards;
  cards = before;
  cards.insert(cards.end(), after.begin(), after.end());
  std::ranges::sort(cards);
  cards.erase(std::unique(cards.begin(), cards.end()), cards.end());
  auto link = [&](const std::vector<CardId>& ranks, std::vector<uint32_t>& card_of,
                  std::vector<uint32_t>& position_of) {
    position_of.assign(cards.size(), k_no_position);
    for (uint32_t position = 0; position < ranks.size(); ++position) {
      auto at = std::ranges::lower_bound(cards, ranks[position]);
      card_of.push_back(static_cast<uint32_t>(at - cards.begin()));
      position_of[card_of.back()] = position;
    }
  };
  link(before, from_card_, from_position_);
  link(after, to_card_, to_position_);
}

uint64_t ReshardBuilder::kept_bytes(uint32_t from_position, uint32_t to_position) const {
  Shards::Place before = from_->place(from_position), after = to_->place(to_position);
  uint64_t sum = 0;
  for (const TensorSpec& spec : plan_->model.tensors) {
    uint64_t layers =
        intersect(from_->layers(spec, before.stage), to_->layers(spec, after.stage)).size();
    if (layers == 0) continue;
    uint64_t experts = 1;
    if (spec.experts > 0) {
      experts = 0;
      for (uint32_t expert : to_->experts(after.replica, after.ep))
        experts += from_->slot(before.replica, expert) == before.ep ? 1 : 0;
    }
    if (experts == 0) continue;
    sum +=
        layers * experts * spec.element_bytes * shared_elements(spec, *from_, before, *to_, after);
  }
  return sum;
}

void ReshardBuilder::fill_bounds() {
  plan_->ranks.assign(plan_->cards.size(), {});
  for (uint32_t card = 0; card < card_count(); ++card) {
    RankBytes& x = plan_->ranks[card];
    uint32_t before = from_position_[card], after = to_position_[card];
    if (before != k_no_position) x.resident_before = from_->bytes(before);
    if (after == k_no_position) continue;
    x.resident_after = to_->bytes(after);
    if (before != k_no_position) x.kept = kept_bytes(before, after);
    x.lower_bound = x.resident_after - x.kept;
  }
}

uint32_t ReshardBuilder::node(uint32_t card) const {
  return options_.ranks_per_node == 0 ? 0 : plan_->cards[card].value / options_.ranks_per_node;
}

uint64_t ReshardBuilder::transfer_bytes(const ReshardTransfer& x) const {
  const ReshardPiece& piece = plan_->pieces[x.piece];
  return (elements_before(piece, x.end_unit) - elements_before(piece, x.first_unit)) *
         spec(piece.family).element_bytes;
}

uint8_t ReshardBuilder::step(const std::string& name) {
  auto& steps = plan_->steps;
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i].name == name) return static_cast<uint8_t>(i);
  steps.push_back({name, 0, 0});
  received_by_step_.emplace_back(card_count(), 0);
  return static_cast<uint8_t>(steps.size() - 1);
}

void ReshardBuilder::count(uint8_t step, uint32_t from, uint32_t to, uint64_t bytes) {
  plan_->ranks[from].send += bytes;
  plan_->ranks[to].receive += bytes;
  received_by_step_[step][to] += bytes;
}

void ReshardBuilder::finish() {
  for (size_t i = 0; i < plan_->steps.size(); ++i)
    for (uint64_t bytes : received_by_step_[i]) {
      plan_->steps[i].receive_total += bytes;
      plan_->steps[i].receive_max = std::max(plan_->steps[i].receive_max, bytes);
    }
}

}  // namespace cohort::plan
