#include "runtime/model/families.hpp"

#include <algorithm>
#include <array>

namespace cohort::model {
namespace {

/// Sorted by name. Figures are the class defaults of Hugging Face's configurations.
constexpr std::array k_families = {
    Family{.model_type = "deepseek_v2",
           .architecture = "DeepseekV2ForCausalLM",
           .has_bias_key = true,
           .has_latent_attention = true,
           .experts = ExpertKeys::deepseek_v2},
    Family{.model_type = "deepseek_v3",
           .architecture = "DeepseekV3ForCausalLM",
           .has_bias_key = true,
           .has_latent_attention = true,
           .experts = ExpertKeys::deepseek_v3},
    Family{.model_type = "llama",
           .architecture = "LlamaForCausalLM",
           .has_bias_key = true,
           .has_mlp_bias_key = true,
           .rope_theta = 10000},  // files of Llama 2 do not say it
    Family{.model_type = "mistral",
           .architecture = "MistralForCausalLM",
           .kv_heads = 8,
           .sliding_window = 4096},
    Family{.model_type = "qwen2",
           .architecture = "Qwen2ForCausalLM",
           .kv_heads = 32,
           .attention_bias = true,
           .has_window_switch = true,
           .has_first_window_key = true,
           .has_layer_types = true},
    Family{.model_type = "qwen2_moe",
           .architecture = "Qwen2MoeForCausalLM",
           .kv_heads = 16,
           .attention_bias = true,
           .has_qkv_bias_key = true,
           .experts = ExpertKeys::qwen2,
           .has_window_switch = true,
           .has_layer_types = true},  // as transformers 5; 4 windows every layer
    Family{.model_type = "qwen3",
           .architecture = "Qwen3ForCausalLM",
           .head_dim = 128,
           .kv_heads = 32,
           .has_bias_key = true,
           .qk_norm = true,
           .has_window_switch = true,
           .has_first_window_key = true,
           .has_layer_types = true},
    Family{.model_type = "qwen3_moe",
           .architecture = "Qwen3MoeForCausalLM",
           .kv_heads = 4,
           .has_bias_key = true,
           .qk_norm = true,
           .experts = ExpertKeys::qwen3,
           .has_window_switch = true},
};

/// Families that plans count alone.
constexpr std::array k_planned = {
    Family{.model_type = "qwen3_5",
           .architecture = "Qwen3_5ForCausalLM",
           .head_dim = 256,
           .qk_norm = true,
           .has_delta_nets = true,
           .rope_theta = 1e7},
    Family{.model_type = "qwen3_5_moe",
           .architecture = "Qwen3_5MoeForCausalLM",
           .head_dim = 256,
           .kv_heads = 2,
           .qk_norm = true,
           .has_delta_nets = true,
           .experts = ExpertKeys::qwen2,
           .rope_theta = 1e7},
    Family{.model_type = "qwen3_next",
           .architecture = "Qwen3NextForCausalLM",
           .head_dim = 256,
           .kv_heads = 2,
           .qk_norm = true,
           .has_delta_nets = true,
           .experts = ExpertKeys::qwen2,
           .rope_theta = 1e7},
};

/// Text parts of models that see or hear, and the family that has the same layers.
struct TextPart {
  std::string_view model_type, family;
};
constexpr std::array k_text_parts = {
    TextPart{"qwen2_5_omni_text", "qwen2"},     TextPart{"qwen2_5_vl", "qwen2"},
    TextPart{"qwen2_5_vl_text", "qwen2"},       TextPart{"qwen2_vl", "qwen2"},
    TextPart{"qwen2_vl_text", "qwen2"},         TextPart{"qwen3_5_moe_text", "qwen3_5_moe"},
    TextPart{"qwen3_5_text", "qwen3_5"},        TextPart{"qwen3_omni_moe_text", "qwen3_moe"},
    TextPart{"qwen3_vl_moe_text", "qwen3_moe"}, TextPart{"qwen3_vl_text", "qwen3"},
};

}  // namespace

const Family* find_family(std::string_view model_type) {
  const auto part = std::ranges::find(k_text_parts, model_type, &TextPart::model_type);
  if (part != k_text_parts.end()) model_type = part->family;
  for (std::span<const Family> families : {std::span<const Family>(k_families), {k_planned}}) {
    const auto found = std::ranges::find(families, model_type, &Family::model_type);
    if (found != families.end()) return &*found;
  }
  return nullptr;
}

std::span<const std::string_view> family_names() {
  static constexpr auto k_names = [] {
    std::array<std::string_view, k_families.size()> names;
    std::ranges::transform(k_families, names.begin(), &Family::model_type);
    return names;
  }();
  return k_names;
}

}  // namespace cohort::model
