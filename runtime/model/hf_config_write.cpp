#include <nlohmann/json.hpp>

#include "runtime/model/families.hpp"
#include "runtime/model/hf_config.hpp"

namespace cohort::model {
namespace {

using Out = nlohmann::ordered_json;

Out written_rope(const RopeShape& rope) {
  Out out;
  out["rope_type"] = rope.type;
  out["factor"] = rope.factor;
  if (rope.type == "linear" || rope.type == "dynamic") return out;
  out["original_max_position_embeddings"] = static_cast<int64_t>(rope.original_max_position);
  if (rope.type == "llama3") {
    out["low_freq_factor"] = rope.low_freq_factor;
    out["high_freq_factor"] = rope.high_freq_factor;
    return out;
  }
  out["beta_fast"] = rope.beta_fast;
  out["beta_slow"] = rope.beta_slow;
  if (!rope.truncate) out["truncate"] = false;
  if (rope.attention_factor) out["attention_factor"] = *rope.attention_factor;
  if (rope.mscale != 0) out["mscale"] = rope.mscale;
  if (rope.mscale_all_dim != 0) out["mscale_all_dim"] = rope.mscale_all_dim;
  return out;
}

void write_window(const ModelShape& x, const Family& family, Out& out) {
  if (family.sliding_window > 0) {  // Mistral: null is a full view
    if (x.sliding_window > 0)
      out["sliding_window"] = x.sliding_window;
    else
      out["sliding_window"] = nullptr;
    return;
  }
  if (x.sliding_window == 0) return;
  out["use_sliding_window"] = true;
  out["sliding_window"] = x.sliding_window;
  out["max_window_layers"] = 0;
  if (x.windowed.empty()) return;
  for (bool is_windowed : x.windowed)
    out["layer_types"].push_back(is_windowed ? "sliding_attention" : "full_attention");
}

void write_experts(const ModelShape& x, ExpertKeys keys, Out& out) {
  const MoeShape& moe = *x.moe;
  out["num_experts_per_tok"] = moe.experts_per_token;
  out["moe_intermediate_size"] = moe.moe_intermediate_size;
  out["norm_topk_prob"] = moe.norm_topk_prob;
  if (keys == ExpertKeys::qwen2 || keys == ExpertKeys::qwen3) {
    out["num_experts"] = moe.num_experts;
    out["decoder_sparse_step"] = moe.sparse_step;
    out["mlp_only_layers"] = moe.dense_layers;
    out["router_aux_loss_coef"] = moe.aux_loss_coef;
    if (keys == ExpertKeys::qwen2)
      out["shared_expert_intermediate_size"] = moe.shared_intermediate_size;
    return;
  }
  out["n_routed_experts"] = moe.num_experts;
  out["n_shared_experts"] = moe.shared_intermediate_size / moe.moe_intermediate_size;
  out["first_k_dense_replace"] = moe.first_moe_layer;
  out["n_group"] = moe.num_groups;
  out["topk_group"] = moe.topk_groups;
  if (keys == ExpertKeys::deepseek_v3) {
    out["topk_method"] = "noaux_tc";
    out["scoring_func"] = "sigmoid";
  } else {
    out["topk_method"] = moe.num_groups > 1 ? "group_limited_greedy" : "greedy";
    out["scoring_func"] = "softmax";
  }
  out["routed_scaling_factor"] = moe.routed_scaling;
}

void write_latent(const MlaShape& mla, Out& out) {
  if (mla.q_lora_rank > 0)
    out["q_lora_rank"] = mla.q_lora_rank;
  else
    out["q_lora_rank"] = nullptr;
  out["kv_lora_rank"] = mla.kv_lora_rank;
  out["qk_rope_head_dim"] = mla.qk_rope_head_dim;
  out["qk_nope_head_dim"] = mla.qk_nope_head_dim;
  out["v_head_dim"] = mla.v_head_dim;
}

std::string architecture(const HfConfig& config, const Family& family) {
  std::string name(family.architecture);
  const std::string language = "ForCausalLM";
  if (config.head == HfConfig::Head::language) return name;
  name.resize(name.size() - language.size());
  return name + (config.head == HfConfig::Head::sequence_score ? "ForSequenceClassification"
                                                               : "ForTokenClassification");
}

void write_ids(const HfConfig& config, Out& out) {
  if (config.bos_id) out["bos_token_id"] = *config.bos_id;
  if (config.eos_ids.size() == 1)
    out["eos_token_id"] = config.eos_ids.front();
  else if (!config.eos_ids.empty())
    out["eos_token_id"] = config.eos_ids;
  if (config.pad_id) out["pad_token_id"] = *config.pad_id;
}

}  // namespace

std::string write_hf_config(const HfConfig& config) {
  const ModelShape& x = config.shape;
  const Family& family = *find_family(x.family);
  Out out;
  if (!config.name_or_path.empty()) out["_name_or_path"] = config.name_or_path;
  out["architectures"] = {architecture(config, family)};
  out["model_type"] = x.family;
  out["hidden_act"] = "silu";
  out["vocab_size"] = x.vocab_size;
  out["hidden_size"] = x.hidden_size;
  out["num_hidden_layers"] = x.num_hidden_layers;
  out["num_attention_heads"] = x.num_attention_heads;
  out["num_key_value_heads"] = x.num_key_value_heads;
  if (!x.mla) out["head_dim"] = x.head_dim;
  out["intermediate_size"] = x.intermediate_size;
  out["max_position_embeddings"] = x.max_position;
  out["rope_theta"] = x.rope.theta;
  if (x.rope.type != "default") out["rope_scaling"] = written_rope(x.rope);
  out["rms_norm_eps"] = x.rms_norm_eps;
  out["initializer_range"] = x.initializer_range;
  out[family.has_qkv_bias_key ? "qkv_bias" : "attention_bias"] = x.attention_bias;
  if (x.mlp_bias) out["mlp_bias"] = true;
  out["tie_word_embeddings"] = x.tie_word_embeddings;
  write_window(x, family, out);
  if (x.mla) write_latent(*x.mla, out);
  if (x.moe) write_experts(x, family.experts, out);
  if (config.head != HfConfig::Head::language) {
    for (int64_t i = 0; i < config.labels; ++i)
      out["id2label"][std::to_string(i)] = "LABEL_" + std::to_string(i);
    for (int64_t i = 0; i < config.labels; ++i) out["label2id"]["LABEL_" + std::to_string(i)] = i;
  }
  write_ids(config, out);
  // transformers 4 reads the first, 5 the second.
  if (!config.dtype.empty()) out["torch_dtype"] = out["dtype"] = config.dtype;
  return out.dump(2) + "\n";
}

}  // namespace cohort::model
