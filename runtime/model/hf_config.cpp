#include "runtime/model/hf_config.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/model/families.hpp"

namespace cohort::model {
namespace {

using Json = nlohmann::json;

/// Reads keys of one config; the first failure stays and every later read gives 0.
class Reader {
 public:
  Reader(const Json& json, std::string_view name) : json_(json), name_(name) {}

  int64_t required(const char* key) {
    auto it = json_.find(key);
    if (it == json_.end()) return fail("no key '" + std::string(key) + "'");
    return number(*it, key);
  }
  int64_t optional(const char* key, int64_t fallback) {
    auto it = json_.find(key);
    return it == json_.end() || it->is_null() ? fallback : number(*it, key);
  }
  bool flag(const char* key, bool fallback) {
    auto it = json_.find(key);
    if (it == json_.end() || it->is_null()) return fallback;
    if (!it->is_boolean()) fail("'" + std::string(key) + "' is not true or false");
    return it->is_boolean() && it->get<bool>();
  }
  int64_t fail(const std::string& what) {
    if (!error_)
      error_ = Error{Errc::config, "model " + std::string(name_) + ": config.json: " + what};
    return 0;
  }
  double real(const char* key, double fallback) {
    auto it = json_.find(key);
    if (it == json_.end() || it->is_null()) return fallback;
    if (!it->is_number()) fail("'" + std::string(key) + "' is not a number");
    return it->is_number() ? it->get<double>() : fallback;
  }
  std::string word(const char* key, const std::string& fallback) {
    auto it = json_.find(key);
    return it != json_.end() && it->is_string() ? it->get<std::string>() : fallback;
  }
  std::string_view name() const { return name_; }
  const std::optional<Error>& error() const { return error_; }

 private:
  int64_t number(const Json& value, const char* key) {
    constexpr int64_t k_max = int64_t{1} << 32;
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > k_max)
      return fail("'" + std::string(key) + "' is " + value.dump().substr(0, 40) +
                  ", not a number from 0 to 2^32");
    return value.get<int64_t>();
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

MoeShape read_qwen_moe(const Json& json, Reader& in, bool has_shared) {
  MoeShape moe;
  // transformers 5 writes another name.
  moe.num_experts =
      in.required(json.contains("num_local_experts") ? "num_local_experts" : "num_experts");
  moe.experts_per_token = in.required("num_experts_per_tok");
  moe.moe_intermediate_size = in.required("moe_intermediate_size");
  if (has_shared) {
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
  constexpr int64_t k_max = int64_t{1} << 25;  // beyond what check_shape accepts
  moe.shared_intermediate_size = std::min(in.optional("n_shared_experts", 0), k_max) *
                                 std::min(moe.moe_intermediate_size, k_max);
  moe.first_moe_layer = in.optional("first_k_dense_replace", 0);
  moe.router_bias = is_v3;
  return moe;
}

ModelShape read_common(Reader& in, const Family& family) {
  ModelShape x;
  x.family = family.model_type;
  x.vocab_size = in.required("vocab_size");
  x.hidden_size = in.required("hidden_size");
  x.num_hidden_layers = in.required("num_hidden_layers");
  x.num_attention_heads = in.required("num_attention_heads");
  int64_t heads = std::max<int64_t>(x.num_attention_heads, 1);
  x.num_key_value_heads =
      in.optional("num_key_value_heads", family.kv_heads > 0 ? family.kv_heads : heads);
  x.head_dim =
      in.optional("head_dim", family.head_dim > 0 ? family.head_dim : x.hidden_size / heads);
  x.intermediate_size = in.optional("intermediate_size", 0);
  x.max_position = in.optional("max_position_embeddings", 0);
  x.tie_word_embeddings = in.flag("tie_word_embeddings", false);
  x.qk_norm = family.qk_norm;
  x.attention_bias = in.flag("attention_bias", family.attention_bias);
  x.attention_output_bias = x.attention_bias && family.biases_output;
  x.rms_norm_eps = in.real("rms_norm_eps", x.rms_norm_eps);
  x.initializer_range = in.real("initializer_range", x.initializer_range);
  if (in.flag("mlp_bias", false)) in.fail("mlp_bias: biases in the MLP are of no known family");
  if (in.word("hidden_act", "silu") != "silu") in.fail("'hidden_act' is not \"silu\"");
  return x;
}

/// Rotary positions: at the top (transformers 4), or in rope_parameters (5).
void read_positions(const Json& json, Reader& in, const Family& family, ModelShape& x) {
  x.rope_theta = in.real("rope_theta", family.rope_theta);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    auto it = json.find(key);
    if (it == json.end() || !it->is_object()) continue;
    Reader scaling(*it, in.name());
    x.rope_theta = scaling.real("rope_theta", x.rope_theta);
    x.rope_type = scaling.word("rope_type", scaling.word("type", "default"));
    if (scaling.error()) in.fail(std::string(key) + " has a key of another type");
  }
  // Qwen says apart whether the window is used; null is a full view.
  bool is_used = in.flag("use_sliding_window", family.sliding_window > 0);
  bool is_null = json.contains("sliding_window") && json["sliding_window"].is_null();
  if (is_used && !is_null) x.sliding_window = in.optional("sliding_window", family.sliding_window);
}

void read_experts(const Json& json, Reader& in, const Family& family, ModelShape& x) {
  if (family.has_latent_attention) {
    x.mla = read_mla(in);
    x.head_dim = x.mla->qk_nope_head_dim + x.mla->qk_rope_head_dim;
  }
  switch (family.experts) {
    case ExpertKeys::none:
      return;
    case ExpertKeys::qwen2:
    case ExpertKeys::qwen3:
      x.moe = read_qwen_moe(json, in, family.experts == ExpertKeys::qwen2);
      break;
    case ExpertKeys::deepseek_v2:
    case ExpertKeys::deepseek_v3:
      x.moe = read_deepseek_moe(in, family.experts == ExpertKeys::deepseek_v3);
      break;
  }
  refuse_mixed_layers(json, in);
}

}  // namespace

Expected<ModelShape> read_hf_config(std::string_view text, std::string_view name) {
  constexpr size_t k_text_max = size_t{1} << 20;
  if (text.size() > k_text_max)
    return Error{Errc::config, "model " + std::string(name) + ": config.json is over 1 MiB"};
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return Error{Errc::config, "model " + std::string(name) + ": config.json is not a JSON object"};
  Reader in(json, name);
  std::string type = in.word("model_type", "");
  const Family* family = find_family(type);
  if (family == nullptr) {
    std::string known;
    for (std::string_view x : family_names()) known += (known.empty() ? "" : ", ") + std::string(x);
    return Error{Errc::config, "model " + std::string(name) + ": config.json: model_type '" +
                                   type.substr(0, 64) + "' is not one of " + known};
  }
  ModelShape x = read_common(in, *family);
  x.name = name;
  read_positions(json, in, *family, x);
  read_experts(json, in, *family, x);
  if (in.error()) return *in.error();
  if (auto valid = check_shape(x); !valid) return Error{Errc::config, valid.error().detail};
  return x;
}

std::string write_hf_config(const ModelShape& x, std::string_view torch_dtype) {
  nlohmann::ordered_json json;
  const Family* family = find_family(x.family);
  json["architectures"] = {std::string(family == nullptr ? "" : family->architecture)};
  json["model_type"] = x.family;
  json["hidden_act"] = "silu";
  json["vocab_size"] = x.vocab_size;
  json["hidden_size"] = x.hidden_size;
  json["num_hidden_layers"] = x.num_hidden_layers;
  json["num_attention_heads"] = x.num_attention_heads;
  json["num_key_value_heads"] = x.num_key_value_heads;
  json["head_dim"] = x.head_dim;
  json["intermediate_size"] = x.intermediate_size;
  json["max_position_embeddings"] = x.max_position;
  json["rope_theta"] = x.rope_theta;
  json["rms_norm_eps"] = x.rms_norm_eps;
  json["initializer_range"] = x.initializer_range;
  json["attention_bias"] = x.attention_bias;
  json["tie_word_embeddings"] = x.tie_word_embeddings;
  json["torch_dtype"] = torch_dtype;
  return json.dump(2) + "\n";
}

}  // namespace cohort::model
