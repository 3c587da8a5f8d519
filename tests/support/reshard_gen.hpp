#pragma once
/// Random models and layouts for what plans and executes a reshard. Elements are 8 bytes wide, so
/// that one can hold its own index.
#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/rng.hpp"
#include "tests/support/reshard_models.hpp"

namespace cohort::test {

using plan::ModelTensors;
using plan::ReshardMode;
using plan::ReshardOptions;
using plan::ShardLayout;
using plan::TensorSpec;

inline uint32_t pick(Rng& rng, std::initializer_list<uint32_t> values) {
  return values.begin()[rng.below(values.size())];
}

inline TensorSpec random_family(Rng& rng, uint32_t layers, uint32_t experts) {
  TensorSpec x;
  auto draw = [&](uint64_t most) { return 1 + rng.below(most); };
  x.kind = static_cast<TensorSpec::Kind>(rng.below(experts > 0 ? 3 : 2));
  x.where = static_cast<TensorSpec::Where>(rng.below(4));
  if (x.kind == TensorSpec::Kind::expert) {
    x.where = TensorSpec::Where::layers;
    x.experts = experts;
  }
  x.first_layer = static_cast<uint32_t>(rng.below(layers + 1));
  x.end_layer = x.first_layer + static_cast<uint32_t>(rng.below(layers + 1 - x.first_layer));
  if (rng.below(2)) x.first_layer = 0, x.end_layer = layers;
  x.parts = x.kind == TensorSpec::Kind::replicated ? 1 : pick(rng, {2, 4, 12, 12});
  x.may_repeat = x.parts == 2;
  x.outer = draw(3);
  x.split = x.parts * draw(3);
  x.inner = draw(4);
  x.tp_first = rng.below(2);
  x.element_bytes = 8;  // an index
  return x;
}

inline ModelTensors random_model(Rng& rng) {
  ModelTensors model{static_cast<uint32_t>(1 + rng.below(6)), {}};
  uint32_t experts = pick(rng, {0, 4, 6, 12});
  for (uint64_t i = 0, count = 1 + rng.below(4); i < count; ++i) {
    model.tensors.push_back(random_family(rng, model.layers, experts));
    model.tensors.back().name = "family " + std::to_string(i);
  }
  return model;
}

inline std::vector<uint32_t> random_slots(Rng& rng, uint32_t experts, uint32_t ep) {
  std::vector<uint32_t> row;
  for (uint32_t i = 0; i < experts; ++i) row.push_back(i % ep);
  for (size_t i = row.size(); i > 1; --i) std::swap(row[i - 1], row[rng.below(i)]);
  return row;
}

/// A layout that the model allows, on some of the first `cards` cards from `first` on.
inline ShardLayout random_layout(Rng& rng, const ModelTensors& model, uint32_t first,
                                 uint32_t cards) {
  uint32_t experts = 0;
  for (const TensorSpec& x : model.tensors) experts = std::max(experts, x.experts);
  for (;;) {
    ShardLayout x = make_layout("random", pick(rng, {1, 2, 3, 4}), pick(rng, {1, 1, 2, 3}),
                                pick(rng, {1, 2, 3, 4}), pick(rng, {1, 2, 3, 4, 6}));
    x.expert_tp = pick(rng, {1, 1, 2});
    x.zero_stage = rng.below(3) ? 0 : 3;
    rng.below(2);  // one draw more: seeds keep their layouts
    std::vector<CardId> pool = test::consecutive_cards(cards, first);
    for (size_t i = pool.size(); i > 1; --i) std::swap(pool[i - 1], pool[rng.below(i)]);
    if (pool.size() < x.ranks.size()) continue;
    pool.resize(x.ranks.size());
    x.ranks = pool;
    for (uint32_t stage = 0, left = model.layers; stage < x.pp; ++stage) {
      x.layers_per_stage.push_back(stage + 1 == x.pp ? left
                                                     : static_cast<uint32_t>(rng.below(left + 1)));
      left -= x.layers_per_stage.back();
    }
    if (experts > 0 && experts % x.ep == 0 && x.tp * x.dp % (x.ep * x.expert_tp) == 0 &&
        rng.below(3) == 0)
      for (uint32_t i = 0, rows = rng.below(2) ? 1 : x.expert_replicas(); i < rows; ++i)
        x.expert_slots.push_back(random_slots(rng, experts, x.ep));
    if (plan::check_layout(model, x)) return x;
  }
}

inline std::string describe(const ShardLayout& x) {
  std::string text = "tp " + std::to_string(x.tp) + " pp " + std::to_string(x.pp) + " dp " +
                     std::to_string(x.dp) + " ep " + std::to_string(x.ep) + " expert_tp " +
                     std::to_string(x.expert_tp) + " zero " + std::to_string(x.zero_stage) +
                     " layers";
  for (uint32_t n : x.layers_per_stage) text += " " + std::to_string(n);
  text += " cards";
  for (CardId card : x.ranks) text += " " + std::to_string(card.value);
  for (const auto& row : x.expert_slots) {
    text += " slots";
    for (uint32_t slot : row) text += " " + std::to_string(slot);
  }
  return text;
}
struct ReshardCase {
  ModelTensors model;
  ShardLayout from, to;
  ReshardOptions options;
};

inline std::string describe(const ReshardCase& x) {
  return describe(x.from) + "\n -> " + describe(x.to);
}

inline ReshardCase random_reshard(Rng& rng) {
  ReshardCase x;
  x.model = random_model(rng);
  uint32_t cards = static_cast<uint32_t>(12 + rng.below(20));
  x.from = random_layout(rng, x.model, 0, cards);
  x.to = random_layout(rng, x.model, pick(rng, {0, 0, 5, cards}), cards);
  x.options.mode = static_cast<ReshardMode>(rng.below(4));
  if (rng.below(2)) x.options.mode = ReshardMode::p2p;
  x.options.bucket_bytes = rng.below(3) ? 8 + rng.below(2000) : 0;
  x.options.permute_experts = rng.below(2);
  x.options.ranks_per_node = pick(rng, {0, 2, 4, 8});
  return x;
}

inline uint64_t element_id(uint64_t family, uint64_t layer, uint64_t expert, uint64_t element) {
  return ((family * 64 + layer) * 64 + expert) << 32 | element;
}

/// The elements of a position's buffer, in order: written from the words of reshard_layout.hpp.
inline std::vector<uint64_t> shard_of(const ModelTensors& model, const ShardLayout& x,
                                      uint32_t position) {
  uint32_t tp = position % x.tp, rest = position / x.tp;
  uint32_t dp = rest % x.dp, pp = rest / x.dp;
  uint32_t q = tp + x.tp * dp;
  uint32_t etp = q % x.expert_tp, ep = q / x.expert_tp % x.ep, replica = q / x.expert_tp / x.ep;
  uint64_t first = 0;
  for (uint32_t i = 0; i < pp; ++i) first += x.layers_per_stage[i];
  std::vector<uint64_t> result;
  for (uint64_t family = 0; family < model.tensors.size(); ++family) {
    const TensorSpec& spec = model.tensors[family];
    bool is_expert = spec.kind == TensorSpec::Kind::expert;
    uint64_t degree = is_expert ? x.expert_tp : x.tp, t = is_expert ? etp : tp;
    if (spec.kind == TensorSpec::Kind::replicated) degree = 1, t = 0;
    if (degree > spec.parts) t = t * spec.parts / degree, degree = spec.parts;
    uint64_t begin = spec.split * t / degree, end = spec.split * (t + 1) / degree;
    for (uint64_t layer = 0; layer < std::max(model.layers, 1u); ++layer) {
      bool is_mine = layer >= first && layer < first + x.layers_per_stage[pp] &&
                     layer >= spec.first_layer && layer < spec.end_layer;
      if (spec.where != TensorSpec::Where::layers)
        is_mine = layer == 0 && ((pp == 0 && spec.where != TensorSpec::Where::last_stage) ||
                                 (pp + 1 == x.pp && spec.where != TensorSpec::Where::first_stage));
      if (!is_mine) continue;
      for (uint32_t expert = 0; expert < std::max(spec.experts, 1u); ++expert) {
        if (is_expert) {
          uint32_t slot = x.expert_slots.empty()       ? expert / (spec.experts / x.ep)
                          : x.expert_slots.size() == 1 ? x.expert_slots[0][expert]
                                                       : x.expert_slots[replica][expert];
          if (slot != ep) continue;
        }
        std::vector<uint64_t> slice;
        for (uint64_t o = 0; o < spec.outer; ++o)
          for (uint64_t s = begin; s < end; ++s)
            for (uint64_t i = 0; i < spec.inner; ++i)
              slice.push_back(
                  element_id(family, layer, expert, (o * spec.split + s) * spec.inner + i));
        uint64_t copies = x.zero_stage < 3 ? 1 : is_expert ? x.expert_replicas() : x.dp;
        uint64_t which = x.zero_stage < 3 ? 0 : is_expert ? replica : dp;
        uint64_t part = (slice.size() + copies - 1) / copies;
        for (uint64_t i = part * which; i < std::min<uint64_t>(part * (which + 1), slice.size());
             ++i)
          result.push_back(slice[i]);
      }
    }
  }
  return result;
}

}  // namespace cohort::test
