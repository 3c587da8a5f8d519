#include "runtime/compute/model/model_layout.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace cohort::compute {
namespace {

int64_t aligned(int64_t elements) {
  return (elements + k_alignment - 1) / k_alignment * k_alignment;
}

/// Appends specs to a layout; begin_group() aligns, add() packs tightly.
class LayoutBuilder {
 public:
  int64_t begin_group() {
    next_ = aligned(next_);
    return next_;
  }
  void add(std::string name, std::vector<int64_t> shape, bool is_decayed) {
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    layout.specs.push_back({std::move(name), std::move(shape), next_, count, is_decayed});
    next_ += count;
  }
  int64_t add_group(std::string name, std::vector<int64_t> shape, bool is_decayed) {
    int64_t offset = begin_group();
    add(std::move(name), std::move(shape), is_decayed);
    return offset;
  }
  ParameterLayout finish() && {
    layout.total_elements = aligned(next_);
    return std::move(layout);
  }

  ParameterLayout layout;

 private:
  int64_t next_ = 0;
};

LayerOffsets add_layer(LayoutBuilder& builder, const ModelConfig& c, int64_t index) {
  std::string prefix = fmt::format("model.layers.{}.", index);
  LayerOffsets offsets;
  offsets.input_norm = builder.add_group(prefix + "input_layernorm.weight", {c.hidden_size}, false);
  offsets.qkv_weight = builder.begin_group();
  builder.add(prefix + "self_attn.q_proj.weight", {c.q_size(), c.hidden_size}, true);
  builder.add(prefix + "self_attn.k_proj.weight", {c.kv_size(), c.hidden_size}, true);
  builder.add(prefix + "self_attn.v_proj.weight", {c.kv_size(), c.hidden_size}, true);
  if (c.attention_bias) {
    offsets.qkv_bias = builder.begin_group();
    builder.add(prefix + "self_attn.q_proj.bias", {c.q_size()}, false);
    builder.add(prefix + "self_attn.k_proj.bias", {c.kv_size()}, false);
    builder.add(prefix + "self_attn.v_proj.bias", {c.kv_size()}, false);
  }
  offsets.o_weight =
      builder.add_group(prefix + "self_attn.o_proj.weight", {c.hidden_size, c.q_size()}, true);
  offsets.post_norm =
      builder.add_group(prefix + "post_attention_layernorm.weight", {c.hidden_size}, false);
  offsets.gate_up = builder.begin_group();
  builder.add(prefix + "mlp.gate_proj.weight", {c.intermediate_size, c.hidden_size}, true);
  builder.add(prefix + "mlp.up_proj.weight", {c.intermediate_size, c.hidden_size}, true);
  offsets.down = builder.add_group(prefix + "mlp.down_proj.weight",
                                   {c.hidden_size, c.intermediate_size}, true);
  return offsets;
}

template <class T>
Expected<T> required(const nlohmann::json& json, const char* key) {
  auto it = json.find(key);
  if (it == json.end()) return Error{Errc::config, fmt::format("config.json: no key '{}'", key)};
  if (!it->is_number())
    return Error{Errc::config, fmt::format("config.json: '{}' is not a number", key)};
  return it->get<T>();
}

template <class T>
T optional(const nlohmann::json& json, const char* key, T fallback) {
  auto it = json.find(key);
  bool is_usable =
      it != json.end() && (std::is_same_v<T, bool> ? it->is_boolean() : it->is_number());
  return is_usable ? it->get<T>() : fallback;
}

}  // namespace

Expected<void> validate(const ModelConfig& c) {
  const std::pair<const char*, int64_t> extents[] = {{"vocab_size", c.vocab_size},
                                                     {"hidden_size", c.hidden_size},
                                                     {"num_hidden_layers", c.num_hidden_layers},
                                                     {"num_attention_heads", c.num_attention_heads},
                                                     {"num_key_value_heads", c.num_key_value_heads},
                                                     {"head_dim", c.head_dim},
                                                     {"intermediate_size", c.intermediate_size},
                                                     {"max_position", c.max_position}};
  constexpr int64_t k_extent_max = int64_t{1} << 24;  // products of two extents stay far from 2^63
  for (auto [name, value] : extents) {
    if (value <= 0 || value > k_extent_max)
      return Error{Errc::invalid_argument,
                   fmt::format("model: {} = {} is not in 1..{}", name, value, k_extent_max)};
  }
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    return Error{Errc::invalid_argument,
                 fmt::format("model: num_attention_heads = {} is not a multiple of "
                             "num_key_value_heads = {}",
                             c.num_attention_heads, c.num_key_value_heads)};
  if (c.head_dim % 2 != 0)
    return Error{Errc::invalid_argument, fmt::format("model: head_dim = {} is odd", c.head_dim)};
  if (c.dtype != tensor::Dtype::f32 && c.dtype != tensor::Dtype::bf16)
    return Error{Errc::invalid_argument,
                 fmt::format("model: dtype {} is not f32 or bf16", tensor::to_string(c.dtype))};
  if (!(c.rope_theta > 0) || !(c.rms_norm_eps > 0) || !(c.initializer_range >= 0))
    return Error{
        Errc::invalid_argument,
        "model: rope_theta and rms_norm_eps must be positive, initializer_range not negative"};
  return {};
}

const ParameterSpec* ParameterLayout::find(std::string_view name) const {
  for (const ParameterSpec& spec : specs) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

ParameterLayout layout_of(const ModelConfig& c) {
  LayoutBuilder builder;
  int64_t embedding =
      builder.add_group("model.embed_tokens.weight", {c.vocab_size, c.hidden_size}, true);
  for (int64_t i = 0; i < c.num_hidden_layers; ++i)
    builder.layout.layers.push_back(add_layer(builder, c, i));
  int64_t final_norm = builder.add_group("model.norm.weight", {c.hidden_size}, false);
  int64_t lm_head = embedding;
  if (!c.tie_word_embeddings)
    lm_head = builder.add_group("lm_head.weight", {c.vocab_size, c.hidden_size}, true);
  ParameterLayout layout = std::move(builder).finish();
  layout.embedding = embedding;
  layout.final_norm = final_norm;
  layout.lm_head = lm_head;
  return layout;
}

int64_t parameter_count(const ParameterLayout& layout) {
  int64_t count = 0;
  for (const ParameterSpec& spec : layout.specs) count += spec.count;
  return count;
}

std::string to_hf_json(const ModelConfig& c) {
  nlohmann::ordered_json json;
  json["architectures"] = {"Qwen2ForCausalLM"};
  json["model_type"] = "qwen2";
  json["hidden_act"] = "silu";
  json["vocab_size"] = c.vocab_size;
  json["hidden_size"] = c.hidden_size;
  json["num_hidden_layers"] = c.num_hidden_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["num_key_value_heads"] = c.num_key_value_heads;
  json["head_dim"] = c.head_dim;
  json["intermediate_size"] = c.intermediate_size;
  json["max_position_embeddings"] = c.max_position;
  json["rope_theta"] = c.rope_theta;
  json["rms_norm_eps"] = c.rms_norm_eps;
  json["initializer_range"] = c.initializer_range;
  json["attention_bias"] = c.attention_bias;
  json["tie_word_embeddings"] = c.tie_word_embeddings;
  json["torch_dtype"] = c.dtype == tensor::Dtype::bf16 ? "bfloat16" : "float32";
  return json.dump(2) + "\n";
}

Expected<ModelConfig> from_hf_json(std::string_view text) {
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return Error{Errc::config, "config.json: not a JSON object"};
  ModelConfig c;
  COHORT_ASSIGN(c.vocab_size, required<int64_t>(json, "vocab_size"));
  COHORT_ASSIGN(c.hidden_size, required<int64_t>(json, "hidden_size"));
  COHORT_ASSIGN(c.num_hidden_layers, required<int64_t>(json, "num_hidden_layers"));
  COHORT_ASSIGN(c.num_attention_heads, required<int64_t>(json, "num_attention_heads"));
  COHORT_ASSIGN(c.intermediate_size, required<int64_t>(json, "intermediate_size"));
  COHORT_ASSIGN(c.max_position, required<int64_t>(json, "max_position_embeddings"));
  c.num_key_value_heads = optional<int64_t>(json, "num_key_value_heads", c.num_attention_heads);
  int64_t heads = c.num_attention_heads > 0 ? c.num_attention_heads : 1;
  c.head_dim = optional<int64_t>(json, "head_dim", c.hidden_size / heads);
  c.rope_theta = optional<double>(json, "rope_theta", c.rope_theta);
  c.rms_norm_eps = optional<double>(json, "rms_norm_eps", c.rms_norm_eps);
  c.initializer_range = optional<double>(json, "initializer_range", c.initializer_range);
  bool is_qwen2 = json.value("model_type", std::string("qwen2")) == "qwen2";
  c.attention_bias = optional<bool>(json, "attention_bias", is_qwen2);
  c.tie_word_embeddings = optional<bool>(json, "tie_word_embeddings", false);
  auto dtype = json.find("torch_dtype");
  if (dtype != json.end() && *dtype == "bfloat16") c.dtype = tensor::Dtype::bf16;
  COHORT_TRY(validate(c));
  return c;
}

}  // namespace cohort::compute
