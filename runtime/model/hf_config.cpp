#include "runtime/model/hf_config.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/outside_json.hpp"
#include "runtime/model/families.hpp"

namespace cohort::model {
namespace {

using Json = nlohmann::json;

/// Reads keys of one object and remembers which; the first failure stays and every later read gives
/// its fallback.
class Reader {
 public:
  Reader(const Json& json, std::string_view name)
      : json_(json), where_("model " + std::string(name) + ": config.json: ") {}
  /// Of an object in that of `outer`.
  Reader(const Json& json, const Reader& outer, const std::string& key)
      : json_(json), where_(outer.where_ + key + ": ") {}

  int64_t required(const char* key) {
    const Json* value = find(key);
    return value == nullptr ? fail("no key '" + std::string(key) + "'") : number(*value, key);
  }
  double required_real(const char* key, const std::string& what_for) {
    if (find(key) == nullptr) fail("no key '" + std::string(key) + "', which " + what_for);
    return real(key, 1);
  }
  int64_t optional(const char* key, int64_t fallback) {
    const Json* value = find(key);
    return value == nullptr ? fallback : number(*value, key);
  }
  bool flag(const char* key, bool fallback) {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) fail("'" + std::string(key) + "' is not true or false");
    return value->is_boolean() && value->get<bool>();
  }
  double real(const char* key, double fallback) {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_number()) fail("'" + std::string(key) + "' is not a number");
    return value->is_number() ? value->get<double>() : fallback;
  }
  std::string word(const char* key, const std::string& fallback) {
    const Json* value = find(key);
    if (value != nullptr && !value->is_string()) fail("'" + std::string(key) + "' is not a text");
    return label(key, fallback);
  }
  /// A word that nothing is computed from: `fallback` where it is no text.
  std::string label(const char* key, const std::string& fallback) {
    const Json* value = find(key);
    return value != nullptr && value->is_string() ? value->get<std::string>() : fallback;
  }
  /// Returns the value; nullptr where the key is absent or null.
  const Json* find(const char* key) {
    used_.insert(key);
    auto it = json_.find(key);
    return it == json_.end() || it->is_null() ? nullptr : &*it;
  }
  bool is_null(const char* key) const {
    auto it = json_.find(key);
    return it != json_.end() && it->is_null();
  }
  int64_t fail(const std::string& what) {
    if (!error_) error_ = Error{Errc::config, where_ + what};
    return 0;
  }
  /// Takes over the failure of an object inside.
  void join(const Reader& inner) {
    if (!error_) error_ = inner.error_;
  }
  void note(const std::string& what) { notices_.push_back("config.json: " + what); }
  const std::vector<std::string>& notices() const { return notices_; }
  const std::set<std::string, std::less<>>& used() const { return used_; }
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
  std::string where_;
  std::vector<std::string> notices_;
  std::set<std::string, std::less<>> used_;
  std::optional<Error> error_;
};

/// Keys that change nothing in what is computed here. Names that begin with '_' do not either.
constexpr std::array k_harmless = std::to_array<std::string_view>({
    "attention_dropout",
    "attn_implementation",
    "auto_map",  // the family is computed here; no code of the folder runs
    "aux_loss_alpha",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "ep_size",
    "finetuning_task",
    "is_decoder",
    "keys_to_ignore_at_inference",
    "label2id",
    "max_window_layers",
    "num_nextn_predict_layers",  // the layers behind the last one are not loaded
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "pretraining_tp",
    "problem_type",
    "qk_head_dim",
    "return_dict",
    "seq_aux",
    "sliding_window",  // without use_sliding_window
    "task_specific_params",
    "tokenizer_class",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "unsloth_version",
    "use_cache",
    "use_return_dict",
});
static_assert(std::ranges::is_sorted(k_harmless));

MlaShape read_mla(Reader& in) {
  MlaShape mla;
  mla.q_lora_rank = in.optional("q_lora_rank", 0);
  mla.kv_lora_rank = in.required("kv_lora_rank");
  mla.qk_rope_head_dim = in.required("qk_rope_head_dim");
  mla.qk_nope_head_dim = in.required("qk_nope_head_dim");
  mla.v_head_dim = in.required("v_head_dim");
  if (!in.flag("rope_interleave", true)) in.fail("rope_interleave must be true");
  return mla;
}

MoeShape read_qwen_moe(Reader& in, bool has_shared) {
  MoeShape moe;
  // transformers 5 writes another name.
  moe.num_experts =
      in.required(in.find("num_local_experts") != nullptr ? "num_local_experts" : "num_experts");
  moe.experts_per_token = in.required("num_experts_per_tok");
  moe.moe_intermediate_size = in.required("moe_intermediate_size");
  moe.norm_topk_prob = in.flag("norm_topk_prob", false);
  moe.aux_loss_coef = in.real("router_aux_loss_coef", 0.001);
  moe.sparse_step = in.optional("decoder_sparse_step", 1);
  if (moe.sparse_step == 0) in.fail("'decoder_sparse_step' is 0, and layers are counted by it");
  if (const Json* dense = in.find("mlp_only_layers")) {
    if (!dense->is_array()) in.fail("'mlp_only_layers' is not a list");
    for (const Json& layer : *dense)
      if (layer.is_number_unsigned())
        moe.dense_layers.push_back(layer.get<int64_t>());
      else
        in.fail("'mlp_only_layers' has an entry that is no number");
  }
  if (has_shared) {
    moe.shared_intermediate_size = in.required("shared_expert_intermediate_size");
    moe.shared_gate = moe.shared_intermediate_size > 0;
  }
  return moe;
}

/// Out of how many of the groups experts are chosen. DeepSeek-V3 has one method; V2 has a key for
/// it, and reads the groups only if it says so.
void read_groups(Reader& in, bool is_v3, MoeShape& moe) {
  constexpr const char* k_limited = "group_limited_greedy";
  const std::string method = in.word("topk_method", is_v3 ? "noaux_tc" : "greedy");
  if (is_v3 && method != "noaux_tc")
    in.note("topk_method '" + method + "' has no effect: deepseek_v3 knows noaux_tc alone");
  if (!is_v3 && method != "greedy" && method != k_limited)
    in.fail("'topk_method' is '" + method + "', which the family does not have");
  for (const char* key : {"n_group", "topk_group"})
    if (is_v3 ? in.is_null(key) : method == k_limited && in.find(key) == nullptr)
      in.fail("no number '" + std::string(key) + "', which the choice of experts by groups needs");
  moe.num_groups = in.optional("n_group", is_v3 ? 8 : 1);
  moe.topk_groups = in.optional("topk_group", is_v3 ? 4 : 1);
  if (!is_v3 && method != k_limited) moe.num_groups = moe.topk_groups = 1;
}

MoeShape read_deepseek_moe(Reader& in, bool is_v3) {
  MoeShape moe;
  moe.num_experts = in.required("n_routed_experts");
  moe.experts_per_token = in.required("num_experts_per_tok");
  moe.moe_intermediate_size = in.required("moe_intermediate_size");
  constexpr int64_t k_max = int64_t{1} << 25;  // beyond what check_shape accepts
  const int64_t of_class = in.is_null("n_shared_experts") ? 0 : is_v3 ? 1 : 2;
  moe.shared_intermediate_size = std::min(in.optional("n_shared_experts", of_class), k_max) *
                                 std::min(moe.moe_intermediate_size, k_max);
  moe.first_moe_layer = in.optional("first_k_dense_replace", is_v3 ? 3 : 0);
  moe.router_bias = moe.is_sigmoid = is_v3;
  const bool is_normed = in.flag("norm_topk_prob", is_v3);
  moe.norm_topk_prob = is_v3 && is_normed;
  if (!is_v3 && is_normed)
    in.note("norm_topk_prob has no effect: transformers' deepseek_v2 does not divide by the sum");
  moe.routed_scaling = in.real("routed_scaling_factor", is_v3 ? 2.5 : 1.0);
  read_groups(in, is_v3, moe);
  if (in.word("scoring_func", is_v3 ? "sigmoid" : "softmax") != (is_v3 ? "sigmoid" : "softmax"))
    in.fail("'scoring_func' is not that of the family");
  if (in.optional("moe_layer_freq", 1) != 1)
    in.fail("experts in every layer from first_k_dense_replace on only: moe_layer_freq must be 1");
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
  const bool is_biased = in.flag("attention_bias", family.attention_bias);
  x.attention_bias = family.has_bias_key ? is_biased : family.attention_bias;
  if (family.has_qkv_bias_key) x.attention_bias = in.flag("qkv_bias", family.attention_bias);
  x.attention_output_bias = x.attention_bias && family.has_bias_key;
  if (family.has_mlp_bias_key)
    x.mlp_bias = in.flag("mlp_bias", false);
  else if (in.flag("mlp_bias", false))
    in.fail("mlp_bias: biases in the MLP are not of the family " + std::string(family.model_type));
  x.rms_norm_eps = in.real("rms_norm_eps", x.rms_norm_eps);
  if (!(x.rms_norm_eps > 0)) in.fail("'rms_norm_eps' is not positive");
  x.initializer_range = in.real("initializer_range", x.initializer_range);
  const std::string act = in.word("hidden_act", "silu");
  if (act != "silu" && act != "swish") in.fail("'hidden_act' is not \"silu\"");  // one function
  if (in.flag("use_mrope", false)) in.fail("use_mrope: positions of images are not built in");
  return x;
}

/// Gated delta nets: in the layers that layer_types names, or in all but every so-many-th.
void read_delta(Reader& in, ModelShape& x) {
  DeltaShape delta;
  delta.attention_interval = std::max<int64_t>(in.optional("full_attention_interval", 4), 1);
  delta.key_heads = in.optional("linear_num_key_heads", 16);
  delta.value_heads = in.optional("linear_num_value_heads", 32);
  delta.key_head_dim = in.optional("linear_key_head_dim", 128);
  delta.value_head_dim = in.optional("linear_value_head_dim", 128);
  delta.conv_kernel = in.optional("linear_conv_kernel_dim", 4);
  x.delta = delta;
  x.attention_gate = in.flag("attn_output_gate", true);
  const Json* types = in.find("layer_types");
  if (types == nullptr) return;
  bool is_regular = types->is_array() && static_cast<int64_t>(types->size()) == x.num_hidden_layers;
  for (size_t i = 0; is_regular && i < types->size(); ++i)
    is_regular = (*types)[i] ==
                 (delta.is_in(static_cast<int64_t>(i)) ? "linear_attention" : "full_attention");
  if (!is_regular)
    in.fail("'layer_types' does not have full_attention in each " +
            std::to_string(delta.attention_interval) + "th layer and linear_attention elsewhere");
}

/// How positions are scaled, of the object `key`. transformers refuses it if a number is missing
/// that the type needs, and so do we: with a default the model would be another.
void read_scaling(Reader& in, const Json& object, const std::string& key, ModelShape& x) {
  RopeShape& rope = x.rope;
  Reader scaling(object, in, key);
  rope.theta = scaling.real("rope_theta", rope.theta);
  const std::string older = scaling.word("type", "");
  rope.type = scaling.word("rope_type", older);
  if (rope.type.empty() && key == "rope_scaling") scaling.fail("no key 'rope_type'");
  if (rope.type.empty()) rope.type = "default";
  const std::string needs = "rope_type " + rope.type + " needs";
  const bool is_factored = rope.type == "linear" || rope.type == "dynamic" || rope.type == "yarn" ||
                           rope.type == "llama3";
  rope.factor =
      is_factored ? scaling.required_real("factor", needs) : scaling.real("factor", rope.factor);
  if (rope.type == "dynamic" && !(rope.factor > 0)) scaling.fail("'factor' is not positive");
  if (rope.type == "llama3") {
    rope.original_max_position = scaling.required_real("original_max_position_embeddings", needs);
    rope.low_freq_factor = scaling.required_real("low_freq_factor", needs);
    rope.high_freq_factor = scaling.required_real("high_freq_factor", needs);
  }
  if (rope.type == "yarn") {
    rope.original_max_position =
        scaling.real("original_max_position_embeddings", static_cast<double>(x.max_position));
    rope.beta_fast = scaling.real("beta_fast", rope.beta_fast);
    rope.beta_slow = scaling.real("beta_slow", rope.beta_slow);
    rope.truncate = scaling.flag("truncate", true);
    if (scaling.find("attention_factor") != nullptr)
      rope.attention_factor = scaling.real("attention_factor", 1);
    rope.mscale = scaling.real("mscale", 0);
    rope.mscale_all_dim = scaling.real("mscale_all_dim", 0);
  }
  in.join(scaling);
  if (rope.type == "dynamic" && x.max_position == 0)
    in.fail("no positive 'max_position_embeddings', which rope_type dynamic needs");
}

constexpr std::array k_scalings = {"rope_scaling", "rope_parameters"};

/// Rotary positions: at the top (transformers 4), or in rope_parameters (5).
void read_positions(Reader& in, const Family& family, ModelShape& x) {
  x.rope.theta = in.real("rope_theta", family.rope_theta);
  bool has_theta = in.find("rope_theta") != nullptr;
  const auto check_whole = [&](const Json* part) {
    if (part != nullptr && *part != 1 && !family.has_delta_nets)
      in.fail("partial_rotary_factor must be 1: whole heads rotate in these families");
  };
  check_whole(in.find("partial_rotary_factor"));
  for (const char* key : k_scalings) {
    const Json* object = in.find(key);
    if (object == nullptr) continue;
    if (!object->is_object()) {
      in.fail(std::string(key) + " is not an object");
      continue;
    }
    read_scaling(in, *object, key, x);
    const auto theta = object->find("rope_theta"), part = object->find("partial_rotary_factor");
    has_theta = has_theta || (theta != object->end() && !theta->is_null());
    if (part != object->end() && !part->is_null()) check_whole(&*part);
  }
  if (!has_theta && x.rope.theta > 0)
    in.note("no rope_theta: " + std::to_string(std::llround(x.rope.theta)) + ", the default of " +
            std::string(family.model_type));
}

/// Which layers layer_types gives the window; empty: it is not there.
std::vector<bool> read_layer_types(Reader& in, int64_t layers) {
  const Json* types = in.find("layer_types");
  std::vector<bool> windowed;
  if (types == nullptr) return windowed;
  if (!types->is_array() || static_cast<int64_t>(types->size()) != layers) {
    in.fail("'layer_types' is not a list of num_hidden_layers entries");
    return windowed;
  }
  for (const Json& type : *types) {
    windowed.push_back(type == "sliding_attention");
    if (!windowed.back() && type != "full_attention")
      in.fail("'layer_types' has an entry that is neither full_attention nor sliding_attention");
  }
  return windowed;
}

/// A window in all layers (Mistral; Qwen2-MoE and Qwen3-MoE by their switch), or from
/// max_window_layers on, or where layer_types says so.
void read_window(Reader& in, const Family& family, ModelShape& x) {
  constexpr int64_t k_qwen_window = 4096, k_qwen_first = 28;  // the classes' defaults
  if (family.has_window_switch) {
    if (in.flag("use_sliding_window", false) && !in.is_null("sliding_window"))
      x.sliding_window = in.optional("sliding_window", k_qwen_window);
  } else if (family.sliding_window > 0 && !in.is_null("sliding_window")) {
    x.sliding_window = in.optional("sliding_window", family.sliding_window);
  }
  if (family.has_delta_nets) return;  // read_delta has looked at layer_types
  const std::vector<bool> named = read_layer_types(in, x.num_hidden_layers);
  const auto has = [](const std::vector<bool>& layers, bool is_windowed) {
    return std::ranges::find(layers, is_windowed) != layers.end();
  };
  if (x.sliding_window == 0) {
    if (has(named, true)) in.fail("'layer_types' has sliding_attention, and no window is in use");
    return;
  }
  if (!family.has_layer_types) {
    if (has(named, false))
      in.note("layer_types has no effect: the sliding_window of " + std::string(family.model_type) +
              " is in every layer");
    return;
  }
  x.windowed = named;
  if (named.empty() && family.has_first_window_key) {
    const int64_t first = in.optional("max_window_layers", k_qwen_first);
    const int64_t layers = std::min<int64_t>(x.num_hidden_layers, 4096);
    for (int64_t i = 0; i < layers; ++i) x.windowed.push_back(i >= first);
  }
  if (x.windowed.empty()) return;
  if (!has(x.windowed, true)) x.sliding_window = 0;
  if (!has(x.windowed, true) || !has(x.windowed, false)) x.windowed.clear();
}

void read_experts(Reader& in, const Family& family, ModelShape& x) {
  if (family.has_delta_nets) read_delta(in, x);
  if (family.has_latent_attention) {
    x.mla = read_mla(in);
    x.head_dim = x.mla->qk_nope_head_dim + x.mla->qk_rope_head_dim;
  }
  if (family.experts == ExpertKeys::qwen2 || family.experts == ExpertKeys::qwen3)
    x.moe = read_qwen_moe(in, family.experts == ExpertKeys::qwen2);
  else if (family.experts != ExpertKeys::none)
    x.moe = read_deepseek_moe(in, family.experts == ExpertKeys::deepseek_v3);
}

/// One id, or a list of them.
std::vector<int64_t> read_ids(Reader& in, const char* key) {
  std::vector<int64_t> ids;
  const Json* value = in.find(key);
  if (value == nullptr) return ids;
  for (const Json& id : value->is_array() ? *value : Json::array({*value})) {
    if (!id.is_number_integer())
      in.fail("'" + std::string(key) + "' is neither a token id nor a list of them");
    else
      ids.push_back(id.get<int64_t>());
  }
  return ids;
}

std::optional<int64_t> first_of(const std::vector<int64_t>& ids) {
  return ids.empty() ? std::nullopt : std::optional<int64_t>(ids.front());
}

void read_head(Reader& in, HfConfig& config) {
  const Json* names = in.find("architectures");
  std::string architecture;
  if (names != nullptr && names->is_array() && !names->empty() && names->front().is_string())
    architecture = names->front().get<std::string>();
  if (architecture.ends_with("ForSequenceClassification"))
    config.head = HfConfig::Head::sequence_score;
  else if (architecture.ends_with("ForTokenClassification"))
    config.head = HfConfig::Head::token_score;
  const Json* names_of_labels = in.find("id2label");
  const bool has_names = names_of_labels != nullptr && names_of_labels->is_object();
  const int64_t labels =
      in.optional("num_labels", has_names ? static_cast<int64_t>(names_of_labels->size()) : 2);
  if (config.head != HfConfig::Head::language) config.labels = labels;
}

/// The keys that nobody has read and that are not known to change nothing. A switch that is off
/// (false, null) changes nothing.
void list_unknown(const Json& json, const Reader& in, HfConfig& config) {
  for (const auto& [key, value] : json.items()) {
    const bool is_off = value.is_null() || value == false;
    if (is_off || key.starts_with('_') || in.used().contains(key) ||
        std::ranges::binary_search(k_harmless, std::string_view(key)))
      continue;
    config.unknown_keys.push_back(key);
  }
}

/// A model that sees or hears has its text part's config in its own; older ones have it at the top.
struct TextSection {
  const Json* json = nullptr;
  std::string left_out;
};

TextSection text_part_of(const Json& json) {
  const auto object = [](const Json& in, const char* key) {
    const auto it = in.find(key);
    return it == in.end() || !it->is_object() ? nullptr : &*it;
  };
  const Json* whole = &json;
  if (const Json* thinker = object(json, "thinker_config")) whole = thinker;
  const Json* text = object(*whole, "text_config");
  const bool sees = object(*whole, "vision_config") != nullptr;
  const bool hears = object(*whole, "audio_config") != nullptr;
  return {text != nullptr ? text : whole, sees && hears ? "vision and audio"
                                          : sees        ? "vision"
                                          : hears       ? "audio"
                                                        : ""};
}

}  // namespace

Expected<HfConfig> read_hf_config(std::string_view text, std::string_view name) {
  const auto refused = [&](const std::string& what) {
    return Error{Errc::config, "model " + std::string(name) + ": config.json" + what};
  };
  constexpr size_t k_text_max = size_t{1} << 20;
  if (text.size() > k_text_max) return refused(" is over 1 MiB");
  const Expected<Json> parsed = parse_outside_object<Json>(text);
  if (!parsed) return refused(" " + parsed.error().detail);
  const Json& json = *parsed;
  const TextSection part = text_part_of(json);
  Reader in(*part.json, name);
  const std::string type = in.label("model_type", "");
  const Family* family = find_family(type);
  if (family == nullptr) {
    std::string known;
    for (std::string_view x : family_names()) known += (known.empty() ? "" : ", ") + std::string(x);
    return refused(": model_type '" + type.substr(0, 64) + "' is not one of " + known);
  }
  HfConfig config;
  ModelShape& x = config.shape;
  x = read_common(in, *family);
  x.name = name;
  x.left_out = part.left_out;
  if (const auto tied = json.find("tie_word_embeddings");  // beside the text part
      part.json != &json && !part.json->contains("tie_word_embeddings") && tied != json.end())
    x.tie_word_embeddings = *tied == true;
  read_positions(in, *family, x);
  read_window(in, *family, x);
  read_experts(in, *family, x);
  read_head(in, config);
  config.dtype = in.label("dtype", in.label("torch_dtype", ""));
  config.name_or_path = in.label("_name_or_path", "");
  config.eos_ids = read_ids(in, "eos_token_id");
  config.bos_id = first_of(read_ids(in, "bos_token_id"));
  config.pad_id = first_of(read_ids(in, "pad_token_id"));
  if (in.error()) return *in.error();
  config.notices = in.notices();
  list_unknown(*part.json, in, config);
  if (auto valid = check_shape(x); !valid) return Error{Errc::config, valid.error().detail};
  return config;
}

}  // namespace cohort::model
