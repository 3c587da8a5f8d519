#include "runtime/compute/model/policy_graph.hpp"

#include <algorithm>

namespace cohort::compute {
namespace {

using at::Tensor;

Tensor product(const Tensor& x, const Tensor& weight) { return at::mm(x, weight.t()); }

Tensor add_product(const Tensor& residual, const Tensor& x, const Tensor& weight) {
  return at::addmm(residual, x, weight.t());
}

Tensor mlp(const Tensor& x, const PolicyWeights::Layer& layer, const ModelConfig& config) {
  Tensor h = ops::rms_norm(x, layer.post_norm, config.rms_norm_eps);
  return add_product(x, ops::swiglu(product(h, layer.gate_up)), layer.down);
}

Tensor full_layer(const Tensor& x, const PolicyWeights::Layer& layer, const ModelConfig& config,
                  const ops::RopeTable& rope, const PackedBatch& batch) {
  const ops::HeadShape shape{config.num_attention_heads, config.num_key_value_heads,
                             config.head_dim};
  Tensor h = ops::rms_norm(x, layer.input_norm, config.rms_norm_eps);
  Tensor qkv = ops::rope(product(h, layer.qkv_weight), layer.qkv_bias, batch.all.q_position, rope,
                         shape.q_heads + shape.kv_heads, shape.head_dim);
  Tensor mixed = ops::attention(qkv, batch.all, shape);
  return mlp(add_product(x, mixed, layer.o_weight), layer, config);
}

/// Keys and values of all rows, everything else for batch.query_rows. Returns [M, hidden].
Tensor last_layer(const Tensor& x, const PolicyWeights::Layer& layer, const ModelConfig& config,
                  const ops::RopeTable& rope, const PackedBatch& batch) {
  const ops::HeadShape shape{config.num_attention_heads, config.num_key_value_heads,
                             config.head_dim};
  const int64_t q_size = config.q_size(), kv_size = 2 * config.kv_size();
  Tensor q_bias, kv_bias;
  if (layer.qkv_bias.defined()) {
    q_bias = layer.qkv_bias.narrow(0, 0, q_size);
    kv_bias = layer.qkv_bias.narrow(0, q_size, kv_size);
  }
  Tensor h = ops::rms_norm(x, layer.input_norm, config.rms_norm_eps);
  Tensor kv = ops::rope(product(h, layer.qkv_weight.narrow(0, q_size, kv_size)), kv_bias,
                        batch.needed.k_position, rope, shape.kv_heads, shape.head_dim);
  Tensor needed = ops::select_rows(h, batch.query_rows);
  Tensor q = ops::rope(product(needed, layer.qkv_weight.narrow(0, 0, q_size)), q_bias,
                       batch.needed.q_position, rope, shape.q_heads, shape.head_dim);
  Tensor mixed = ops::attention(q, kv, batch.needed, shape);
  Tensor residual = ops::select_rows(x, batch.query_rows);
  return mlp(add_product(residual, mixed, layer.o_weight), layer, config);
}

}  // namespace

Tensor view_leaf(const Tensor& flat, int64_t begin, int64_t offset, int64_t rows, int64_t columns,
                 bool is_trained, std::vector<PolicyWeights::Leaf>& leaves) {
  Tensor view = flat.narrow(0, offset - begin, rows * columns).detach();
  if (columns > 1) view = view.view({rows, columns});
  view.set_requires_grad(is_trained);
  leaves.push_back({view, offset});
  return view;
}

PolicyWeights::Layer view_layer(const Tensor& flat, int64_t begin, const LayerOffsets& at,
                                const ModelConfig& c, bool is_trained,
                                std::vector<PolicyWeights::Leaf>& leaves) {
  auto leaf = [&](int64_t offset, int64_t rows, int64_t columns) {
    return view_leaf(flat, begin, offset, rows, columns, is_trained, leaves);
  };
  PolicyWeights::Layer layer;
  layer.input_norm = leaf(at.input_norm, c.hidden_size, 1);
  layer.qkv_weight = leaf(at.qkv_weight, c.qkv_size(), c.hidden_size);
  if (at.qkv_bias >= 0) layer.qkv_bias = leaf(at.qkv_bias, c.qkv_size(), 1);
  layer.o_weight = leaf(at.o_weight, c.hidden_size, c.q_size());
  layer.post_norm = leaf(at.post_norm, c.hidden_size, 1);
  layer.gate_up = leaf(at.gate_up, 2 * c.intermediate_size, c.hidden_size);
  layer.down = leaf(at.down, c.hidden_size, c.intermediate_size);
  return layer;
}

PolicyWeights view_weights(const Tensor& flat, const ModelConfig& c, const ParameterLayout& layout,
                           bool is_trained) {
  PolicyWeights weights;
  auto leaf = [&](int64_t offset, int64_t rows, int64_t columns) {
    return view_leaf(flat, 0, offset, rows, columns, is_trained, weights.leaves);
  };
  weights.embedding = leaf(layout.embedding, c.vocab_size, c.hidden_size);
  for (const LayerOffsets& at : layout.layers)
    weights.layers.push_back(view_layer(flat, 0, at, c, is_trained, weights.leaves));
  weights.final_norm = leaf(layout.final_norm, c.hidden_size, 1);
  const bool is_tied = layout.lm_head == layout.embedding;
  weights.lm_head = is_tied ? weights.embedding : leaf(layout.lm_head, c.vocab_size, c.hidden_size);
  return weights;
}

Tensor run_layer(const Tensor& x, const PolicyWeights::Layer& layer, const ModelConfig& config,
                 const ops::RopeTable& rope, const PackedBatch& batch, bool is_last) {
  return is_last ? last_layer(x, layer, config, rope, batch)
                 : full_layer(x, layer, config, rope, batch);
}

ops::TokenLogProbs run_head(const Tensor& x, const Tensor& final_norm, const Tensor& lm_head,
                            const ModelConfig& config, const PackedBatch& batch,
                            int64_t logits_max) {
  Tensor h = ops::rms_norm(x, final_norm, config.rms_norm_eps);
  constexpr int64_t k_chunk_rows_min = 16;  // below it the matrix product runs far from its speed
  const int64_t chunk_rows = std::max(k_chunk_rows_min, logits_max / config.vocab_size);
  return ops::token_log_probs(h, lm_head, batch.target, chunk_rows);
}

ops::TokenLogProbs policy_log_probs(const PolicyWeights& weights, const ModelConfig& config,
                                    const ops::RopeTable& rope, const PackedBatch& batch,
                                    int64_t logits_max) {
  Tensor x = ops::embedding(weights.embedding, batch.ids);
  for (size_t i = 0; i < weights.layers.size(); ++i)
    x = run_layer(x, weights.layers[i], config, rope, batch, i + 1 == weights.layers.size());
  return run_head(x, weights.final_norm, weights.lm_head, config, batch, logits_max);
}

}  // namespace cohort::compute
