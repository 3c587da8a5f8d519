#pragma once
/// Models with each kind of layer that a family may have, made of a small one. Header only.
#include <vector>

#include "runtime/compute/model/model_layout.hpp"

namespace cohort::tests {

inline model::RopeShape scaled_rope(const std::string& type) {
  model::RopeShape rope;
  rope.theta = 100;
  rope.type = type;
  rope.factor = 4;
  rope.original_max_position = 16;
  return rope;
}

/// Llama's: no biases, an untied head, nine query heads over three of keys and values (SmolLM2).
inline compute::ModelConfig llama_of(const compute::ModelConfig& base) {
  compute::ModelConfig model = base;
  model.family = "llama";
  model.attention_bias = false;
  model.tie_word_embeddings = false;
  model.hidden_size = 36;
  model.num_attention_heads = 9;
  model.num_key_value_heads = 3;
  model.head_dim = 8;
  model.rms_norm_eps = 1e-5;
  return model;
}

/// DeepSeek-V3's: sigmoid scores, a bias of the choice, groups, shared experts; one dense layer.
inline model::MoeShape deepseek_experts(int64_t width, int64_t shared_width) {
  return {.num_experts = 8,
          .experts_per_token = 3,
          .moe_intermediate_size = width,
          .shared_intermediate_size = shared_width,
          .first_moe_layer = 1,
          .router_bias = true,
          .norm_topk_prob = true,
          .is_sigmoid = true,
          .num_groups = 4,
          .topk_groups = 2,
          .routed_scaling = 2.5};
}

/// What the engines compute: norms of q and k; a window in all layers; biases everywhere with
/// llama3's positions; a window in one layer with yarn's.
inline std::vector<compute::ModelConfig> engine_models(const compute::ModelConfig& base) {
  std::vector<compute::ModelConfig> models(4, base);
  models[0].family = "qwen3";
  models[0].attention_bias = false;
  models[0].qk_norm = true;
  models[1].family = "mistral";
  models[1].attention_bias = false;
  models[1].sliding_window = 5;
  models[2].family = "llama";
  models[2].attention_output_bias = models[2].mlp_bias = true;
  models[2].rope = scaled_rope("llama3");
  models[3].sliding_window = 4;
  models[3].windowed = {false, true};
  models[3].rope = scaled_rope("yarn");
  return models;
}

/// Layers of their own: routed experts in one layer of two, with a shared expert in all, and latent
/// attention with experts chosen by groups. The generation engine runs them with exact rows.
inline std::vector<compute::ModelConfig> expert_models(const compute::ModelConfig& base) {
  std::vector<compute::ModelConfig> models(3, base);
  models[0].family = "qwen3_moe";
  models[0].attention_bias = false;
  models[0].qk_norm = true;
  models[0].moe = model::MoeShape{.num_experts = 4,
                                  .experts_per_token = 2,
                                  .moe_intermediate_size = 12,
                                  .sparse_step = 2,
                                  .norm_topk_prob = true};
  models[1].family = "qwen2_moe";
  models[1].moe = model::MoeShape{.num_experts = 4,
                                  .experts_per_token = 2,
                                  .moe_intermediate_size = 12,
                                  .shared_intermediate_size = 20,
                                  .shared_gate = true};
  models[2].family = "deepseek_v3";
  models[2].attention_bias = false;
  models[2].tie_word_embeddings = false;
  models[2].rope = scaled_rope("yarn");
  models[2].rope.mscale = models[2].rope.mscale_all_dim = 1;
  models[2].mla = model::MlaShape{.q_lora_rank = 12,
                                  .kv_lora_rank = 8,
                                  .qk_rope_head_dim = 4,
                                  .qk_nope_head_dim = 8,
                                  .v_head_dim = 6};
  models[2].head_dim = 12;
  models[2].moe = deepseek_experts(12, 12);
  return models;
}

}  // namespace cohort::tests
