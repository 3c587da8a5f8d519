#pragma once
/// The shape of a decoder-only model, and its tensors. Pure value types and functions.
///
/// Family: pre-norm blocks of grouped-query or latent attention and a gated MLP, dense or with
/// routed experts: Llama, Qwen2/2.5, Qwen3, their mixtures of experts, DeepSeek-V3/R1. The extra
/// prediction layers of DeepSeek (MTP) are not counted: RL post-training does not load them.
/// Bounds: check_shape() keeps every byte count in 64 bits.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plan/reshard/reshard_layout.hpp"

namespace cohort::plan {

/// Routed experts; layers before first_moe_layer keep a dense MLP of intermediate_size.
struct MoeShape {
  uint64_t num_experts = 0, experts_per_token = 0, moe_intermediate_size = 0;
  uint64_t shared_intermediate_size = 0;  // of all shared experts of a layer together; 0: none
  uint64_t first_moe_layer = 0;
  bool router_bias = false;  // DeepSeek's e_score_correction_bias
  bool shared_gate = false;  // Qwen2-MoE: one gate row beside the shared expert
  bool operator==(const MoeShape&) const = default;
};

/// Multi-head latent attention (DeepSeek-V2 and later).
struct MlaShape {
  uint64_t q_lora_rank = 0;  // 0: one query projection without a latent
  uint64_t kv_lora_rank = 0;
  uint64_t qk_rope_head_dim = 0, qk_nope_head_dim = 0, v_head_dim = 0;
  bool operator==(const MlaShape&) const = default;
};

struct ModelShape {
  uint64_t vocab_size = 0, hidden_size = 0, num_hidden_layers = 0;
  uint64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0, intermediate_size = 0;
  bool attention_bias = false;  // on q, k and v
  bool tie_word_embeddings = true;
  bool qk_norm = false;                // one norm vector of head_dim for queries, one for keys
  bool attention_output_bias = false;  // on o too (Llama, Qwen3 with attention_bias)
  uint64_t max_position = 0;           // [tokens] longest sequence; 0: not known
  std::optional<MoeShape> moe = {};
  std::optional<MlaShape> mla = {};
  std::string name = {};  // of the table, or of the folder; only for messages
  bool operator==(const ModelShape&) const = default;
};

/// A family of tensors (reshard_layout.hpp), and how it lies in a flat buffer.
struct ShapeTensor {
  TensorSpec spec;
  bool is_joined = false;  // follows the family before it without padding (q,k,v; gate,up)
  uint64_t elements() const { return spec.outer * spec.split * spec.inner; }  // of one tensor
  /// Returns the tensors of the family in `layers` of its layers (of all experts); 1 for an end.
  uint64_t count(uint64_t layers) const;
  uint64_t count() const { return count(spec.end_layer - spec.first_layer); }  // in the whole model
};

enum class HeadKind : uint8_t { language = 0, value = 1 };  // value: one row, a critic's

/// Returns the families in the order of the flat buffer: embedding, layers, final norm, head.
std::vector<ShapeTensor> tensors_of(const ModelShape& shape, HeadKind head = HeadKind::language);
/// Returns the same for the reshard planner, with `element_bytes` per element.
ModelTensors reshard_tensors_of(const ModelShape& shape, uint64_t element_bytes);

/// Returns the parameters of the model, without padding.
uint64_t parameter_count(const ModelShape& shape);
/// Returns Errc::invalid_argument, naming the field, for a zero size, heads that are not a multiple
/// of the key-value heads, or a product that would not fit 64 bits.
Expected<void> check_shape(const ModelShape& shape);

/// Reads the text of a Hugging Face config.json. Returns Errc::config, naming `name` and the key,
/// for text that is not JSON, a missing or mistyped key, or a model_type outside the family.
Expected<ModelShape> shape_of_hf_config(std::string_view json_text, std::string_view name);

/// Returns the shape that ships under a name, as "Qwen/Qwen2.5-0.5B-Instruct" or the last usable
/// component of a path ("/data/models/Qwen2.5-7B"; a hub cache's "models--Qwen--Qwen3-8B" too).
/// Suffixes that keep the shape (-Instruct, -Base, -Chat, dates) are skipped. Returns
/// Errc::not_found with the nearest names.
Expected<ModelShape> find_model(std::string_view name);

}  // namespace cohort::plan
