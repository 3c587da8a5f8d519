// shape_of_hf_config: Hugging Face's config.json, as text, to a ModelShape.
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/plan/estimate/model_shape.hpp"

namespace cohort::plan {
namespace {

using Json = nlohmann::json;

/// Reads keys of one config; the first failure stays and every later read gives 0.
class Reader {
 public:
  Reader(const Json& json, std::string_view name) : json_(json), name_(name) {}

  uint64_t required(const char* key) {
    auto it = json_.find(key);
    if (it == json_.end()) return fail("no key '" + std::string(key) + "'");
    return number(*it, key);
  }
  uint64_t optional(const char* key, uint64_t fallback) {
    auto it = json_.find(key);
    return it == json_.end() || it->is_null() ? fallback : number(*it, key);
  }
  bool flag(const char* key, bool fallback) {
    auto it = json_.find(key);
    if (it == json_.end() || it->is_null()) return fallback;
    if (!it->is_boolean()) fail("'" + std::string(key) + "' is not true or false");
    return it->is_boolean() && it->get<bool>();
  }
  uint64_t fail(const std::string& what) {
    if (!error_)
      error_ = Error{Errc::config, "model " + std::string(name_) + ": config.json: " + what};
    return 0;
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  uint64_t number(const Json& value, const char* key) {
    constexpr int64_t k_max = int64_t{1} << 32;
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > k_max)
      return fail("'" + std::string(key) + "' is " + value.dump().substr(0, 40) +
                  ", not a number from 0 to 2^32");
    return static_cast<uint64_t>(value.get<int64_t>());
  }

  const Json& json_;
  std::string_view name_;
  std::optional<Error> error_;
};

MlaShape read_mla(Reader& in) {
  MlaShape mla;
  mla.q_lora_rank = in.optional("q_lora_rank", 0);
  mla.kv_lora_rank = in.required("kv_lora_rank");
  mla.qk_rope_head_dim = in.required("qk_rope_head_dim");
  mla.qk_nope_head_dim = in.required("qk_nope_head_dim");
  mla.v_head_dim = in.required("v_head_dim");
  return mla;
}

/// Experts in every layer from the first on; anything else in between is not of the family.
void refuse_mixed_layers(const Json& json, Reader& in) {
  if (in.optional("decoder_sparse_step", 1) != 1 || in.optional("moe_layer_freq", 1) != 1)
    in.fail("experts in every layer only: decoder_sparse_step and moe_layer_freq must be 1");
  auto dense = json.find("mlp_only_layers");
  if (dense != json.end() && dense->is_array() && !dense->empty())
    in.fail("experts in every layer only: mlp_only_layers must be empty");
}

MoeShape read_qwen_moe(Reader& in, bool is_qwen2) {
  MoeShape moe;
  moe.num_experts = in.required("num_experts");
  moe.experts_per_token = in.required("num_experts_per_tok");
  moe.moe_intermediate_size = in.required("moe_intermediate_size");
  if (is_qwen2) {
    moe.shared_intermediate_size = in.required("shared_expert_intermediate_size");
    moe.shared_gate = moe.shared_intermediate_size > 0;
  }
  return moe;
}

MoeShape read_deepseek_moe(Reader& in, bool is_v3) {
  MoeShape moe;
  moe.num_experts = in.required("n_routed_experts");
  moe.experts_per_token = in.required("num_experts_per_tok");
  moe.moe_intermediate_size = in.required("moe_intermediate_size");
  moe.shared_intermediate_size = in.optional("n_shared_experts", 0) * moe.moe_intermediate_size;
  moe.first_moe_layer = in.optional("first_k_dense_replace", 0);
  moe.router_bias = is_v3;
  return moe;
}

ModelShape read_common(Reader& in) {
  ModelShape x;
  x.vocab_size = in.required("vocab_size");
  x.hidden_size = in.required("hidden_size");
  x.num_hidden_layers = in.required("num_hidden_layers");
  x.num_attention_heads = in.required("num_attention_heads");
  x.num_key_value_heads = in.optional("num_key_value_heads", x.num_attention_heads);
  x.intermediate_size = in.optional("intermediate_size", 0);
  x.max_position = in.optional("max_position_embeddings", 0);
  x.tie_word_embeddings = in.flag("tie_word_embeddings", false);
  return x;
}

}  // namespace

Expected<ModelShape> shape_of_hf_config(std::string_view text, std::string_view name) {
  constexpr size_t k_text_max = size_t{1} << 20;
  if (text.size() > k_text_max)
    return Error{Errc::config, "model " + std::string(name) + ": config.json is over 1 MiB"};
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return Error{Errc::config, "model " + std::string(name) + ": config.json is not a JSON object"};
  std::string type = json.contains("model_type") && json["model_type"].is_string()
                         ? json["model_type"].get<std::string>()
                         : "";
  static const std::set<std::string> k_types = {
      "llama", "mistral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3"};
  if (!k_types.contains(type)) {
    std::string known;
    for (const std::string& x : k_types) known += (known.empty() ? "" : ", ") + x;
    return Error{Errc::config, "model " + std::string(name) + ": config.json: model_type '" +
                                   type.substr(0, 64) + "' is not one of " + known};
  }
  Reader in(json, name);
  ModelShape x = read_common(in);
  x.name = name;
  bool is_qwen2 = type.starts_with("qwen2"), is_qwen3 = type.starts_with("qwen3");
  bool is_deepseek = type.starts_with("deepseek");
  uint64_t heads = std::max<uint64_t>(x.num_attention_heads, 1);
  x.head_dim = in.optional("head_dim", is_qwen3 ? 128 : x.hidden_size / heads);
  x.qk_norm = is_qwen3;
  x.attention_bias = in.flag("attention_bias", is_qwen2);
  x.attention_output_bias = x.attention_bias && !is_qwen2;
  if (is_deepseek) {
    x.mla = read_mla(in);
    x.head_dim = x.mla->qk_nope_head_dim + x.mla->qk_rope_head_dim;
    x.moe = read_deepseek_moe(in, type == "deepseek_v3");
  } else if (type.ends_with("_moe")) {
    x.moe = read_qwen_moe(in, is_qwen2);
  }
  if (x.moe) refuse_mixed_layers(json, in);
  if (in.error()) return *in.error();
  if (auto valid = check_shape(x); !valid) return Error{Errc::config, valid.error().detail};
  return x;
}

}  // namespace cohort::plan
