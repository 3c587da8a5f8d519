#pragma once
/// Blocks of a layer that not every family has: routed experts and latent attention. ATen
/// compositions, differentiable, of any device and dtype; used by policy_graph.hpp and, in the form
/// that a cache asks for, by the generation runner (generation_aten.cpp).
#include "runtime/compute/model/policy_graph.hpp"

namespace cohort::compute {

/// Returns the experts' output [N, H] for h [N, H], which is behind the layer's second norm: each
/// token's experts_per_token best by the router, weighted, and the shared expert. No token is
/// dropped. Ties go to the expert of the lower index. A token's experts are added in their order.
///   Qwen: p = softmax of the router's logits over all experts in f32; weights are the chosen p,
///   divided by their sum if norm_topk_prob. DeepSeek-V3: s = sigmoid(logits) in f32; chosen by s +
///   router_bias among the best groups (a group's score: the sum of its two best); weights are the
///   chosen s, divided by their sum + 1e-20 if norm_topk_prob, times routed_scaling. DeepSeek-V2:
///   softmax, a group's score is its best, weights as they are, times routed_scaling.
at::Tensor expert_mlp(const at::Tensor& h, const PolicyWeights::Layer& layer,
                      const model::MoeShape& moe);

/// The same of rows that are sorted by their experts: x [n, H], counts[e] rows for expert e of the
/// layer's [counts.size() * 2 F, H] gates and ups, its [counts.size() * H, F] downs and their
/// adapters. Returns [n, H]. One product per matrix and expert.
at::Tensor expert_rows(const at::Tensor& x, const std::vector<int64_t>& counts,
                       const PolicyWeights::Layer& layer);

/// Returns o's input [M, heads * v_head_dim] of latent attention: queries of h_q [M, H] over the
/// keys of h [N, H]; both are behind the layer's first norm.
at::Tensor latent_attention(const at::Tensor& h, const at::Tensor& h_q,
                            const PolicyWeights::Layer& layer, const ModelConfig& config,
                            const ops::RopeTable& rope, const ops::AttentionLayout& layout);

// -- latent attention over a cache. What is kept of a token is its latent and its rotated key, of
// all heads together; kv_b moves to the queries and the outputs (DeepSeek-V2, arXiv 2405.04434,
// section 2.1.2): q k = (kv_b's key rows^T q) latent, so attention is one key-value head for all.

/// Returns a token's entry [N, kv_lora_rank + qk_rope_head_dim] of the cache, in `h`'s dtype.
/// position: [N] i32.
at::Tensor latent_entries(const at::Tensor& h, const PolicyWeights::Layer& layer,
                          const ModelConfig& config, const at::Tensor& position,
                          const ops::RopeTable& rope);
/// Returns queries of such entries, scaled: [N, heads, kv_lora_rank + qk_rope_head_dim].
at::Tensor latent_queries(const at::Tensor& h, const PolicyWeights::Layer& layer,
                          const ModelConfig& config, const at::Tensor& position,
                          const ops::RopeTable& rope);
/// Returns o's input [N, heads * v_head_dim] of latents mixed by attention [N, heads,
/// kv_lora_rank].
at::Tensor latent_values(const at::Tensor& mixed, const PolicyWeights::Layer& layer,
                         const ModelConfig& config);

}  // namespace cohort::compute
