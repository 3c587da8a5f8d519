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
           .has_first_window_key = true},
    Family{.model_type = "qwen2_moe",
           .architecture = "Qwen2MoeForCausalLM",
           .kv_heads = 16,
           .attention_bias = true,
           .has_qkv_bias_key = true,
           .experts = ExpertKeys::qwen2,
           .has_window_switch = true},
    Family{.model_type = "qwen3",
           .architecture = "Qwen3ForCausalLM",
           .head_dim = 128,
           .kv_heads = 32,
           .has_bias_key = true,
           .qk_norm = true,
           .has_window_switch = true,
           .has_first_window_key = true},
    Family{.model_type = "qwen3_moe",
           .architecture = "Qwen3MoeForCausalLM",
           .kv_heads = 4,
           .has_bias_key = true,
           .qk_norm = true,
           .experts = ExpertKeys::qwen3,
           .has_window_switch = true},
};

}  // namespace

const Family* find_family(std::string_view model_type) {
  auto found = std::ranges::find(k_families, model_type, &Family::model_type);
  return found == k_families.end() ? nullptr : &*found;
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
