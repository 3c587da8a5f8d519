#pragma once
/// Models and layouts for the reshard planner's tests and its bench: DeepSeek-V3's tensors
/// (671,026,419,200 parameters, no MTP) and a dense decoder.
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/reshard/reshard.hpp"

namespace cohort::test {

/// Returns cards first, first + 1, … as ShardLayout::ranks.
inline std::vector<CardId> consecutive_cards(uint32_t count, uint32_t first = 0) {
  std::vector<CardId> cards(count);
  for (uint32_t i = 0; i < count; ++i) cards[i] = {first + i};
  return cards;
}

using Kind = plan::TensorSpec::Kind;
using Where = plan::TensorSpec::Where;

inline plan::TensorSpec layer_tensor(std::string name, Kind kind, uint32_t first, uint32_t end,
                                     uint64_t outer, uint64_t split, uint64_t inner,
                                     uint32_t parts) {
  plan::TensorSpec x;
  x.name = std::move(name);
  x.kind = kind;
  x.first_layer = first;
  x.end_layer = end;
  x.outer = outer;
  x.split = split;
  x.inner = inner;
  x.parts = parts;
  return x;
}

/// The routed experts alone: w13 [2, 2048, 7168] and w2 [7168, 2048] of 256 experts per layer.
inline plan::ModelTensors deepseek_experts(uint32_t layers = 58, uint32_t first = 0) {
  plan::ModelTensors model{layers, {}};
  for (auto x : {layer_tensor("experts.w13", Kind::expert, first, layers, 2, 2048, 7168, 16),
                 layer_tensor("experts.w2", Kind::expert, first, layers, 7168, 2048, 1, 16)}) {
    x.experts = 256;
    model.tensors.push_back(x);
  }
  return model;
}

inline plan::ModelTensors deepseek_v3() {
  plan::ModelTensors model = deepseek_experts(61, 3);
  auto add = [&](plan::TensorSpec x, bool tp_first) {
    x.tp_first = tp_first;
    model.tensors.push_back(std::move(x));
  };
  add(layer_tensor("q_a", Kind::replicated, 0, 61, 1, 1536, 7168, 1), true);
  add(layer_tensor("q_b", Kind::split, 0, 61, 1, 24576, 1536, 128), true);
  add(layer_tensor("kv_a", Kind::replicated, 0, 61, 1, 576, 7168, 1), true);
  add(layer_tensor("kv_b", Kind::split, 0, 61, 1, 32768, 512, 128), true);
  add(layer_tensor("o", Kind::split, 0, 61, 7168, 16384, 1, 128), true);
  add(layer_tensor("norms", Kind::replicated, 0, 61, 1, 2 * 7168 + 1536 + 512, 1, 1), true);
  add(layer_tensor("router", Kind::replicated, 3, 61, 256, 7169, 1, 1), true);  // bias as a column
  add(layer_tensor("shared", Kind::split, 3, 61, 3, 2048, 7168, 16), true);
  add(layer_tensor("mlp", Kind::split, 0, 3, 3, 18432, 7168, 16), false);
  add(layer_tensor("final_norm", Kind::replicated, 0, 0, 1, 7168, 1, 1), false);
  model.tensors.back().where = Where::last_stage;
  add(layer_tensor("embedding", Kind::split, 0, 0, 1, 129280, 7168, 16), false);
  model.tensors.back().where = Where::first_stage;
  add(layer_tensor("head", Kind::split, 0, 0, 1, 129280, 7168, 16), false);
  model.tensors.back().where = Where::last_stage;
  return model;
}

/// Only the tensors that are not routed.
inline plan::ModelTensors deepseek_dense() {
  plan::ModelTensors model = deepseek_v3();
  std::erase_if(model.tensors, [](const plan::TensorSpec& x) { return x.experts > 0; });
  return model;
}

/// A Llama-like model of one attention and one MLP family per layer, grouped-query heads.
inline plan::ModelTensors dense_decoder(uint32_t layers, uint64_t hidden, uint32_t heads,
                                        uint32_t kv_heads, uint64_t ffn, uint64_t vocab) {
  plan::ModelTensors model{layers, {}};
  uint64_t head = hidden / heads;
  model.tensors = {layer_tensor("q", Kind::split, 0, layers, 1, hidden, hidden, heads),
                   layer_tensor("kv", Kind::split, 0, layers, 2, kv_heads * head, hidden, kv_heads),
                   layer_tensor("o", Kind::split, 0, layers, hidden, hidden, 1, heads),
                   layer_tensor("gate_up", Kind::split, 0, layers, 2, ffn, hidden, 64),
                   layer_tensor("down", Kind::split, 0, layers, hidden, ffn, 1, 64),
                   layer_tensor("norms", Kind::replicated, 0, layers, 1, 2 * hidden, 1, 1),
                   layer_tensor("embedding", Kind::split, 0, 0, 1, vocab, hidden, 64)};
  model.tensors[1].may_repeat = true;
  model.tensors.back().where = Where::both_ends;
  return model;
}

inline plan::ShardLayout make_layout(std::string name, uint32_t tp, uint32_t pp, uint32_t dp,
                                     uint32_t ep, uint32_t first_card = 0) {
  plan::ShardLayout x;
  x.name = std::move(name);
  x.tp = tp;
  x.pp = pp;
  x.dp = dp;
  x.ep = ep;
  x.ranks = consecutive_cards(tp * pp * dp, first_card);
  return x;
}

/// TP4 PP8 EP32 on 256 cards times `replicas`, layers 7, 7, 8, 8, 8, 8, 8, 7 of 61.
inline plan::ShardLayout recipe_train(uint32_t replicas = 1) {
  plan::ShardLayout x = make_layout("train", 4, 8, 8 * replicas, 32);
  x.layers_per_stage = {7, 7, 8, 8, 8, 8, 8, 7};
  return x;
}

}  // namespace cohort::test
