#include "runtime/compute/model/policy_graph.hpp"

#include <algorithm>

#include "runtime/compute/model/policy_parts.hpp"
#include "runtime/compute/model/product.hpp"
#include "runtime/compute/model/tied_table.hpp"

namespace cohort::compute {
namespace {

using at::Tensor;

using ops::add_product;
using ops::product;

ops::HeadShape head_shape(const ModelConfig& config, int64_t index) {
  return {config.num_attention_heads, config.num_key_value_heads, config.head_dim,
          config.window_of(index)};
}

Tensor mlp(const Tensor& x, const PolicyWeights::Layer& layer, const ModelConfig& config) {
  Tensor h = ops::rms_norm(x, layer[Part::post_norm], config.rms_norm_eps);
  if (layer[Part::router].defined()) return x + expert_mlp(h, layer, *config.moe);
  Tensor gate_up = adapted(product(h, layer[Part::gate_up]), h, layer.adapters, Part::gate_up);
  Tensor inner = ops::swiglu(biased(gate_up, layer[Part::gate_up_bias]));
  return biased(
      adapted(add_product(x, inner, layer[Part::down]), inner, layer.adapters, Part::down),
      layer[Part::down_bias]);
}

/// residual + o's product of `mixed`, its adapter and its bias.
Tensor add_attention(const Tensor& residual, const Tensor& mixed,
                     const PolicyWeights::Layer& layer) {
  return biased(
      adapted(add_product(residual, mixed, layer[Part::o]), mixed, layer.adapters, Part::o),
      layer[Part::o_bias]);
}

Tensor full_layer(const Tensor& x, const PolicyWeights::Layer& layer, const ModelConfig& config,
                  const ops::RopeTable& rope, const PackedBatch& batch, int64_t index) {
  const ops::HeadShape shape = head_shape(config, index);
  Tensor h = ops::rms_norm(x, layer[Part::input_norm], config.rms_norm_eps);
  if (config.mla)
    return mlp(add_attention(x, latent_attention(h, h, layer, config, rope, batch.all), layer),
               layer, config);
  Tensor qkv = placed_heads(adapted(product(h, layer[Part::qkv]), h, layer.adapters, Part::qkv),
                            layer[Part::qkv_bias], layer, {shape.q_heads, shape.kv_heads}, config,
                            batch.all.q_position, rope);
  return mlp(add_attention(x, ops::attention(qkv, batch.all, shape), layer), layer, config);
}

/// Keys and values of all rows, everything else for batch.query_rows. Returns [M, hidden].
Tensor last_layer(const Tensor& x, const PolicyWeights::Layer& layer, const ModelConfig& config,
                  const ops::RopeTable& rope, const PackedBatch& batch, int64_t index) {
  const ops::HeadShape shape = head_shape(config, index);
  if (config.mla) {
    Tensor h = ops::rms_norm(x, layer[Part::input_norm], config.rms_norm_eps);
    Tensor mixed = latent_attention(h, ops::select_rows(h, batch.query_rows), layer, config, rope,
                                    batch.needed);
    return mlp(add_attention(ops::select_rows(x, batch.query_rows), mixed, layer), layer, config);
  }
  const int64_t q_size = config.q_size(), kv_size = 2 * config.kv_size();
  Tensor q_bias, kv_bias;
  if (layer[Part::qkv_bias].defined()) {
    q_bias = layer[Part::qkv_bias].narrow(0, 0, q_size);
    kv_bias = layer[Part::qkv_bias].narrow(0, q_size, kv_size);
  }
  Tensor h = ops::rms_norm(x, layer[Part::input_norm], config.rms_norm_eps);
  Tensor kv = product(h, layer[Part::qkv].narrow(0, q_size, kv_size));
  kv = placed_heads(adapted(kv, h, layer.adapters, Part::qkv, q_size), kv_bias, layer,
                    {0, shape.kv_heads}, config, batch.needed.k_position, rope);
  Tensor needed = ops::select_rows(h, batch.query_rows);
  Tensor q = product(needed, layer[Part::qkv].narrow(0, 0, q_size));
  q = placed_heads(adapted(q, needed, layer.adapters, Part::qkv), q_bias, layer, {shape.q_heads, 0},
                   config, batch.needed.q_position, rope);
  Tensor mixed = ops::attention(q, kv, batch.needed, shape);
  return mlp(add_attention(ops::select_rows(x, batch.query_rows), mixed, layer), layer, config);
}

/// run_head(); `tied` is what the embedding was given.
MicroOutputs head_log_probs(const Tensor& x, const Tensor& final_norm, const Tensor& lm_head,
                            const ModelConfig& config, const PackedBatch& batch, int64_t logits_max,
                            const Lesson& lesson, const ops::TiedGradientRef& tied) {
  Tensor h = ops::rms_norm(x, final_norm, config.rms_norm_eps);
  if (lm_head.size(0) == 1)  // a value: bf16's 8 bits are too few for a return
    return {product(h.to(at::kFloat), lm_head.to(at::kFloat)).squeeze(1)};
  constexpr int64_t k_chunk_rows_min = 16;  // below it the matrix product runs far from its speed
  if (lesson.divergence == nullptr) {
    const int64_t chunk_rows = std::max(k_chunk_rows_min, logits_max / config.vocab_size);
    auto [logp, entropy] = ops::token_log_probs(h, lm_head, batch.target, chunk_rows, tied);
    return {logp, entropy};
  }
  constexpr int64_t k_copies = 8;  // of the logits, while two distributions are compared
  const int64_t chunk_rows = std::max(k_chunk_rows_min, logits_max / config.vocab_size / k_copies);
  auto [logp, divergence] = ops::taught_log_probs(h, lm_head, batch.target, lesson.teacher,
                                                  *lesson.divergence, chunk_rows, tied);
  return {logp, {}, divergence};
}

}  // namespace

Tensor adapted(const Tensor& y, const Tensor& x, std::span<const PolicyWeights::Adapter> adapters,
               Part part, int64_t first_row) {
  std::vector<Tensor> pieces;
  int64_t done = 0;  // columns of y
  for (const PolicyWeights::Adapter& adapter : adapters) {
    const int64_t begin = adapter.first_row - first_row, rows = adapter.b.size(0);
    if (adapter.part != part || begin < 0 || begin >= y.size(1)) continue;
    if (begin > done) pieces.push_back(y.narrow(1, done, begin - done));
    const auto dtype = adapter.a.scalar_type();
    const Tensor inner = at::mm(x.to(dtype), adapter.a.t());
    pieces.push_back(at::addmm(y.narrow(1, begin, rows).to(dtype), inner, adapter.b.t(),
                               /*beta=*/1, adapter.scale)
                         .to(y.scalar_type()));
    done = begin + rows;
  }
  if (pieces.empty()) return y;
  if (done < y.size(1)) pieces.push_back(y.narrow(1, done, y.size(1) - done));
  return pieces.size() == 1 ? pieces.front() : at::cat(pieces, 1);
}

Tensor biased(const Tensor& x, const Tensor& bias) { return bias.defined() ? x + bias : x; }

Tensor placed_heads(const Tensor& x, const Tensor& bias, const PolicyWeights::Layer& layer,
                    HeadCounts heads, const ModelConfig& config, const Tensor& position,
                    const ops::RopeTable& rope) {
  const int64_t rotated = heads.q + heads.k;
  if (!layer[Part::q_norm].defined())
    return ops::rope(x, bias, position, rope, rotated, config.head_dim);
  Tensor normed = ops::head_norm(x, bias, layer[Part::q_norm], heads.q, layer[Part::k_norm],
                                 heads.k, config.rms_norm_eps);
  return ops::rope(normed, Tensor(), position, rope, rotated, config.head_dim);
}

Tensor view_leaf(const Tensor& flat, int64_t begin, const PartSpan& part, bool is_trained,
                 std::vector<PolicyWeights::Leaf>& leaves) {
  Tensor view = flat.narrow(0, part.offset - begin, part.count()).detach();
  if (part.columns > 0) view = view.view({part.rows, part.columns});
  view.set_requires_grad(is_trained);
  leaves.push_back({view, part.offset});
  return view;
}

PolicyWeights::Layer view_layer(const Tensor& flat, int64_t begin, const LayerParts& parts,
                                bool is_trained, std::vector<PolicyWeights::Leaf>& leaves) {
  PolicyWeights::Layer layer;
  for (size_t i = 0; i < model::k_parts; ++i)  // in the order of offsets: MODEL-1
    if (parts.items[i].offset >= 0)
      layer.items[i] = view_leaf(flat, begin, parts.items[i], is_trained, leaves);
  return layer;
}

PolicyWeights view_weights(const Tensor& flat, const ParameterLayout& layout, bool is_trained) {
  PolicyWeights weights;
  auto leaf = [&](const PartSpan& part) {
    return view_leaf(flat, 0, part, is_trained, weights.leaves);
  };
  weights.embedding = leaf(layout.embedding);
  for (const LayerParts& parts : layout.layers)
    weights.layers.push_back(view_layer(flat, 0, parts, is_trained, weights.leaves));
  weights.final_norm = leaf(layout.final_norm);
  weights.lm_head = layout.is_tied() ? weights.embedding : leaf(layout.lm_head);
  return weights;
}

void attach_adapters(const Tensor& flat, const LoraLayout& layout, bool is_trained,
                     PolicyWeights& weights) {
  weights.leaves.clear();
  const double scale = layout.shape.scale();
  for (size_t layer = 0; layer < layout.layers.size(); ++layer)
    for (const LoraPair& pair : layout.layers[layer]) {
      const Tensor a = view_leaf(flat, 0, pair.a, is_trained, weights.leaves);
      const Tensor b = view_leaf(flat, 0, pair.b, is_trained, weights.leaves);
      weights.layers[layer].adapters.push_back(
          {pair.part, pair.first_row, a, b, scale, pair.experts});
    }
}

Tensor run_layer(const Tensor& x, const PolicyWeights::Layer& layer, const ModelConfig& config,
                 const ops::RopeTable& rope, const PackedBatch& batch, int64_t index) {
  return index + 1 == config.num_hidden_layers ? last_layer(x, layer, config, rope, batch, index)
                                               : full_layer(x, layer, config, rope, batch, index);
}

MicroOutputs run_head(const Tensor& x, const Tensor& final_norm, const Tensor& lm_head,
                      const ModelConfig& config, const PackedBatch& batch, int64_t logits_max,
                      const Lesson& lesson) {
  return head_log_probs(x, final_norm, lm_head, config, batch, logits_max, lesson, {});
}

namespace {

Tensor run_layers(Tensor x, const PolicyWeights& weights, const ModelConfig& config,
                  const ops::RopeTable& rope, const PackedBatch& batch) {
  for (size_t i = 0; i < weights.layers.size(); ++i)
    x = run_layer(x, weights.layers[i], config, rope, batch, static_cast<int64_t>(i));
  return x;
}

}  // namespace

MicroOutputs policy_log_probs(const PolicyWeights& weights, const ModelConfig& config,
                              const ops::RopeTable& rope, const PackedBatch& batch,
                              int64_t logits_max, const Lesson& lesson) {
  ops::TiedGradientRef tied;
  if (weights.lm_head.is_same(weights.embedding) && ops::is_fused(weights.embedding))
    tied = c10::make_intrusive<ops::TiedGradient>();
  const Tensor x =
      run_layers(ops::embedding(weights.embedding, batch.ids, tied), weights, config, rope, batch);
  return head_log_probs(x, weights.final_norm, weights.lm_head, config, batch, logits_max, lesson,
                        tied);
}

ops::TeacherRows teacher_rows(const PolicyWeights& weights, const ModelConfig& config,
                              const ops::RopeTable& rope, const PackedBatch& batch) {
  const at::NoGradGuard no_grad;
  const Tensor x =
      run_layers(ops::embedding(weights.embedding, batch.ids), weights, config, rope, batch);
  return {ops::rms_norm(x, weights.final_norm, config.rms_norm_eps), weights.lm_head};
}

}  // namespace cohort::compute
