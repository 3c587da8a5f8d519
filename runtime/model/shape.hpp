#pragma once
/// The shape of a decoder-only model: the numbers of its config.json. Pure value types and
/// functions; every layer that knows a model reads this one.
///
/// Covered: pre-norm blocks of grouped-query or latent attention and a gated MLP, dense or with
/// routed experts (families.cpp lists the families). Shapes that plans count and no engine computes
/// say so (engine_gap): gated delta nets, and models whose vision or audio part is left out. The
/// extra prediction layers (MTP) are not counted: RL post-training does not load them.
/// Bounds: check_shape() keeps every byte count in 64 bits.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/model/rope.hpp"

namespace cohort::model {

/// Routed experts; layers without them keep a dense MLP of intermediate_size (is_in tells).
struct MoeShape {
  int64_t num_experts = 0, experts_per_token = 0, moe_intermediate_size = 0;
  int64_t shared_intermediate_size = 0;  // of all shared experts of a layer together; 0: none
  int64_t first_moe_layer = 0;
  int64_t sparse_step = 1;  // of the layers from there on, each sparse_step-th has experts
  std::vector<int64_t> dense_layers = {};  // have none all the same
  bool router_bias = false;                // DeepSeek-V3's e_score_correction_bias
  bool shared_gate = false;                // Qwen2-MoE: one gate row beside the shared expert
  bool norm_topk_prob = false;             // weights of the chosen experts are divided by their sum
  bool is_sigmoid = false;  // DeepSeek-V3: scores are sigmoid(logits), else softmax over all
  int64_t num_groups = 1, topk_groups = 1;  // experts are chosen out of the best groups
  double routed_scaling = 1;
  double aux_loss_coef = 0;  // only for output_router_logits
  bool operator==(const MoeShape&) const = default;
  bool is_in(int64_t layer) const {
    return layer >= first_moe_layer && (layer + 1) % sparse_step == 0 &&
           std::find(dense_layers.begin(), dense_layers.end(), layer) == dense_layers.end();
  }
};

/// Multi-head latent attention (DeepSeek-V2 and later).
struct MlaShape {
  int64_t q_lora_rank = 0;  // 0: one query projection without a latent
  int64_t kv_lora_rank = 0;
  int64_t qk_rope_head_dim = 0, qk_nope_head_dim = 0, v_head_dim = 0;
  bool operator==(const MlaShape&) const = default;
};

/// Gated delta nets (arXiv 2412.06464) in the layers that have no attention: Qwen3-Next, Qwen3.5.
struct DeltaShape {
  int64_t attention_interval = 4;  // each so-many-th layer has attention
  int64_t key_heads = 0, value_heads = 0, key_head_dim = 0, value_head_dim = 0;
  int64_t conv_kernel = 4;
  bool operator==(const DeltaShape&) const = default;
  bool is_in(int64_t layer) const { return (layer + 1) % attention_interval != 0; }
  int64_t key_size() const { return key_heads * key_head_dim; }
  int64_t value_size() const { return value_heads * value_head_dim; }
};

struct ModelShape {
  int64_t vocab_size = 0, hidden_size = 0, num_hidden_layers = 0;
  int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0, intermediate_size = 0;
  bool attention_bias = true;  // on q, k and v
  bool tie_word_embeddings = true;
  bool qk_norm = false;                // one norm vector of head_dim for queries, one for keys
  bool attention_output_bias = false;  // on o too (Llama, Qwen3 with attention_bias)
  bool mlp_bias = false;               // on gate, up and down
  int64_t max_position = 0;            // [tokens] longest sequence; 0: not known
  RopeShape rope = {};
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  int64_t sliding_window = 0;       // [tokens] that a query sees, its own included; 0: all
  std::vector<bool> windowed = {};  // the layers that have the window; empty: all
  std::string family = "qwen2";     // HF's model_type: a row of families.cpp
  std::optional<MoeShape> moe = {};
  std::optional<MlaShape> mla = {};
  std::optional<DeltaShape> delta = {};
  bool attention_gate = false;  // q_proj has a gate for the output of each head, too
  std::string left_out = {};    // parts that are not counted, e.g. "vision"; empty: none
  std::string name = {};        // of the table, or of the folder; only for messages

  bool operator==(const ModelShape&) const = default;
  int64_t q_size() const { return num_attention_heads * head_dim; }
  int64_t kv_size() const { return num_key_value_heads * head_dim; }
  int64_t qkv_size() const { return q_size() + 2 * kv_size(); }
  /// Elements of a head that rotate.
  int64_t rotary_dim() const { return mla ? mla->qk_rope_head_dim : head_dim; }
  /// Returns the tokens that a query of `layer` sees, its own included; 0: all before it.
  int64_t window_of(int64_t layer) const {
    return windowed.empty() || windowed[static_cast<size_t>(layer)] ? sliding_window : 0;
  }
};

/// Returns Errc::invalid_argument, naming the field, for a size that is not positive, heads that
/// are not a multiple of the key-value heads, or a product that would not fit 64 bits.
Expected<void> check_shape(const ModelShape& shape);

/// Returns what of the shape no engine computes, in words for an error; empty: nothing.
std::string engine_gap(const ModelShape& shape);

/// Returns the shape of one rank's part when a model is cut over `tp` cards: fewer heads, narrower
/// MLPs and experts, a shorter vocabulary. A number that `tp` does not divide is rounded up
/// (compute::tp_config refuses it).
ModelShape tp_part(const ModelShape& shape, int64_t tp);

/// Returns the shape that ships under a name, as "Qwen/Qwen2.5-0.5B-Instruct" or the last usable
/// component of a path ("/data/models/Qwen2.5-7B"; a hub cache's "models--Qwen--Qwen3-8B" too).
/// Suffixes that keep the shape (-Instruct, -Base, -Chat, dates) are skipped. Returns
/// Errc::not_found with the nearest names.
Expected<ModelShape> find_model(std::string_view name);

}  // namespace cohort::model
