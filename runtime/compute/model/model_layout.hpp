#pragma once
/// Plain description of the policy: a decoder-only transformer of the Qwen2 family (pre-RMSNorm,
/// RoPE rotate-half, grouped-query attention, SwiGLU, optional q/k/v bias, tied or untied
/// embeddings), and where each parameter lies in the ONE flat buffer that training, generation and
/// publishing share. Torch-free value types; pure functions; no thread owns anything here.
///
/// LAYOUT-1: specs are in offset order and do not overlap. LAYOUT-2: a fused group (q,k,v weights
/// of a layer; q,k,v biases; gate and up) starts at a multiple of k_alignment elements and has no
/// gap inside, so that it can be read as one [sum of rows, columns] matrix. LAYOUT-3: padding
/// elements are zero for ever.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/tensor/dtype.hpp"

namespace cohort::compute {

inline constexpr int64_t k_alignment = 16;  // [elements] one AVX-512 vector of f32

struct ModelConfig {
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t intermediate_size = 0;
  int64_t max_position = 0;  // [tokens] longest sequence
  double rope_theta = 10000;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  bool attention_bias = true;  // bias on q, k and v (never on o)
  bool tie_word_embeddings = true;
  tensor::Dtype dtype = tensor::Dtype::f32;  // f32 or bf16: what products are computed in

  bool operator==(const ModelConfig&) const = default;
  int64_t q_size() const { return num_attention_heads * head_dim; }
  int64_t kv_size() const { return num_key_value_heads * head_dim; }
  int64_t qkv_size() const { return q_size() + 2 * kv_size(); }
};

/// Returns Errc::invalid_argument naming the first field that is out of range or does not divide.
Expected<void> validate(const ModelConfig& config);

struct ParameterSpec {
  std::string name;            // HF name, e.g. model.layers.0.self_attn.q_proj.weight
  std::vector<int64_t> shape;  // HF shape: weights are [out, in]
  int64_t offset = 0;          // [elements] into the flat buffer
  int64_t count = 0;           // [elements]
  bool is_decayed = true;      // weight decay applies: not to norm weights and biases
};

/// Offsets [elements] of one layer's fused groups.
struct LayerOffsets {
  int64_t input_norm = 0;  // [hidden]
  int64_t qkv_weight = 0;  // [q + 2 kv, hidden]
  int64_t qkv_bias = -1;   // [q + 2 kv], -1 without bias
  int64_t o_weight = 0;    // [hidden, q]
  int64_t post_norm = 0;   // [hidden]
  int64_t gate_up = 0;     // [2 intermediate, hidden]
  int64_t down = 0;        // [hidden, intermediate]
};

struct ParameterLayout {
  std::vector<ParameterSpec> specs;
  std::vector<LayerOffsets> layers;
  int64_t embedding = 0;       // [vocab, hidden]
  int64_t final_norm = 0;      // [hidden]
  int64_t lm_head = 0;         // [vocab, hidden]; equals `embedding` when tied
  int64_t total_elements = 0;  // multiple of k_alignment

  /// Returns the spec of `name`, or nullptr.
  const ParameterSpec* find(std::string_view name) const;
};

/// Returns the layout of a config that passed validate().
ParameterLayout layout_of(const ModelConfig& config);

/// Returns the number of parameters (without padding).
int64_t parameter_count(const ParameterLayout& layout);

/// Returns HF's config.json text (model_type qwen2) for `config`.
std::string to_hf_json(const ModelConfig& config);
/// Reads HF's config.json text; Errc::config names a missing or mistyped key.
Expected<ModelConfig> from_hf_json(std::string_view text);

}  // namespace cohort::compute
