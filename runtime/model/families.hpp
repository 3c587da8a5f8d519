#pragma once
/// The families of decoders: what a config.json of each says, and what it leaves to the family. A
/// new family whose layers are the decoder's of tensors.cpp is one row of families.cpp. Constants.
#include <cstdint>
#include <span>
#include <string_view>

namespace cohort::model {

enum class ExpertKeys : uint8_t { none, qwen2, qwen3, deepseek_v2, deepseek_v3 };

struct Family {
  std::string_view model_type, architecture;  // of config.json
  int64_t head_dim = 0;  // of a config.json without the key; 0: hidden_size / num_attention_heads
  int64_t kv_heads = 0;  // likewise; 0: num_attention_heads
  bool attention_bias = false;    // on q, k and v; where has_bias_key is set: likewise
  bool has_bias_key = false;      // attention_bias of config.json counts, and is on o too
  bool has_qkv_bias_key = false;  // qkv_bias of config.json counts
  bool has_mlp_bias_key = false;
  bool qk_norm = false;
  bool has_latent_attention = false;
  bool has_delta_nets = false;  // gated delta nets beside attention: planned, not computed
  ExpertKeys experts = ExpertKeys::none;
  double rope_theta = 0;       // likewise; 0: not known, and the built-in engine refuses the model
  int64_t sliding_window = 0;  // likewise, [tokens]; 0: every query sees all keys before it
  bool has_window_switch = false;     // use_sliding_window
  bool has_first_window_key = false;  // max_window_layers
  bool has_layer_types = false;  // its windows follow layer_types; elsewhere a window is in all
};

/// Returns the family, or nullptr. The text part of a model with vision or audio is of the family
/// whose layers it has.
const Family* find_family(std::string_view model_type);
/// Returns the model_type of each family that the engines compute, sorted.
std::span<const std::string_view> family_names();

}  // namespace cohort::model
