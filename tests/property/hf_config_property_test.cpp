// A config.json of any family, with every key that the family has drawn at random, is a shape; what
// is written of it is read as the same shape, and written again as the same text: no key is lost.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/base/rng.hpp"
#include "runtime/model/families.hpp"
#include "runtime/model/hf_config.hpp"

namespace cohort::model::hf_config_property_test {
namespace {

using Json = nlohmann::ordered_json;

uint64_t seed() {
  const char* text = std::getenv("COHORT_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20261128;
}

class Draw {
 public:
  explicit Draw(Rng& rng) : rng_(rng) {}
  int64_t number(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(rng_.below(static_cast<uint64_t>(most - least + 1)));
  }
  bool flag() { return rng_.below(2) == 0; }
  double real(double most) { return most * (1 + static_cast<double>(rng_.below(999))) / 1000; }

 private:
  Rng& rng_;
};

void add_positions(Draw& draw, Json& out) {
  out["rope_theta"] = static_cast<double>(draw.number(100, 1000000));
  Json scaling;
  switch (draw.number(0, 4)) {
    case 0:
      return;
    case 1:
      scaling = {{"rope_type", draw.flag() ? "linear" : "dynamic"}};
      break;
    case 2:
      scaling = {{"rope_type", "llama3"},
                 {"original_max_position_embeddings", draw.number(8, 8192)},
                 {"low_freq_factor", draw.real(2)},
                 {"high_freq_factor", 2 + draw.real(4)}};
      break;
    default:
      scaling = {{"rope_type", "yarn"},
                 {"original_max_position_embeddings", draw.number(8, 8192)},
                 {"beta_fast", draw.real(64)},
                 {"beta_slow", draw.real(2)},
                 {"truncate", draw.flag()}};
      if (draw.flag()) scaling["attention_factor"] = draw.real(2);
      if (draw.flag()) scaling["mscale"] = draw.real(2);
      if (draw.flag()) scaling["mscale_all_dim"] = draw.real(2);
  }
  scaling["factor"] = draw.real(40);
  out["rope_scaling"] = scaling;
}

void add_window(Draw& draw, const Family& family, int64_t layers, Json& out) {
  if (family.sliding_window > 0 && draw.flag()) {
    if (draw.flag())
      out["sliding_window"] = nullptr;
    else
      out["sliding_window"] = draw.number(1, 99);
  }
  if (!family.has_window_switch || draw.flag()) return;
  out["use_sliding_window"] = true;
  out["sliding_window"] = draw.number(1, 99);
  out["max_window_layers"] = draw.number(0, layers);
  if (draw.flag()) return;
  for (int64_t i = 0; i < layers; ++i)
    out["layer_types"].push_back(draw.flag() ? "sliding_attention" : "full_attention");
}

void add_experts(Draw& draw, const Family& family, int64_t layers, Json& out) {
  if (family.experts == ExpertKeys::none) return;
  const int64_t groups = draw.number(1, 4), in_group = draw.number(2, 4);
  const int64_t kept = draw.number(1, groups);
  out["num_experts_per_tok"] = draw.number(1, kept * in_group);
  out["moe_intermediate_size"] = draw.number(1, 40);
  out["norm_topk_prob"] = draw.flag();
  if (family.experts == ExpertKeys::qwen2 || family.experts == ExpertKeys::qwen3) {
    out[draw.flag() ? "num_experts" : "num_local_experts"] = groups * in_group;
    out["decoder_sparse_step"] = draw.number(1, 3);
    out["mlp_only_layers"] = Json::array({draw.number(0, layers - 1)});
    out["router_aux_loss_coef"] = draw.real(1);
    if (family.experts == ExpertKeys::qwen2)
      out["shared_expert_intermediate_size"] = draw.number(0, 3) * 7;
    return;
  }
  out["n_routed_experts"] = groups * in_group;
  out["n_shared_experts"] = draw.number(0, 3);
  out["first_k_dense_replace"] = draw.number(0, layers);
  out["routed_scaling_factor"] = draw.real(4);
  out["n_group"] = groups;
  out["topk_group"] = kept;
  if (family.experts == ExpertKeys::deepseek_v2)
    out["topk_method"] = draw.flag() ? "group_limited_greedy" : "greedy";
}

void add_latent_attention(Draw& draw, Json& out) {
  if (draw.flag())
    out["q_lora_rank"] = draw.number(1, 40);
  else
    out["q_lora_rank"] = nullptr;
  out["kv_lora_rank"] = draw.number(1, 40);
  out["qk_rope_head_dim"] = 2 * draw.number(1, 8);
  out["qk_nope_head_dim"] = draw.number(1, 16);
  out["v_head_dim"] = draw.number(1, 16);
}

void add_head_and_ids(Draw& draw, const Family& family, Json& out) {
  std::string name(family.architecture);
  name.resize(name.size() - std::string("ForCausalLM").size());
  constexpr const char* k_heads[] = {"ForCausalLM", "ForSequenceClassification",
                                     "ForTokenClassification"};
  out["architectures"] = {name + k_heads[draw.number(0, 2)]};
  out["num_labels"] = draw.number(1, 12);
  out["bos_token_id"] = draw.number(0, 9);
  out["eos_token_id"] = Json::array({draw.number(0, 9), draw.number(0, 9)});
  out["pad_token_id"] = draw.number(0, 9);
  out[draw.flag() ? "torch_dtype" : "dtype"] = draw.flag() ? "bfloat16" : "float16";
  out["_name_or_path"] = "somewhere";
}

std::string random_config(Draw& draw, const Family& family) {
  const int64_t layers = draw.number(1, 5), kv_heads = draw.number(1, 4);
  Json out;
  out["model_type"] = family.model_type;
  out["vocab_size"] = draw.number(1, 999);
  out["hidden_size"] = 12 * draw.number(1, 9);
  out["num_hidden_layers"] = layers;
  out["num_attention_heads"] = kv_heads * draw.number(1, 3);
  out["num_key_value_heads"] = kv_heads;
  if (draw.flag()) out["head_dim"] = 2 * draw.number(1, 32);
  out["intermediate_size"] = draw.number(1, 99);
  out["max_position_embeddings"] = draw.number(1, 99999);
  out["tie_word_embeddings"] = draw.flag();
  out["attention_bias"] = draw.flag();
  if (family.has_qkv_bias_key) out["qkv_bias"] = draw.flag();
  if (family.has_mlp_bias_key) out["mlp_bias"] = draw.flag();
  out["rms_norm_eps"] = draw.real(1e-4);
  out["initializer_range"] = draw.real(0.1);
  add_positions(draw, out);
  add_window(draw, family, layers, out);
  add_experts(draw, family, layers, out);
  if (family.has_latent_attention) add_latent_attention(draw, out);
  add_head_and_ids(draw, family, out);
  return out.dump(2);
}

void assert_equal(const HfConfig& a, const HfConfig& b, const std::string& text) {
  ASSERT_EQ(a.shape, b.shape) << text;
  ASSERT_EQ(a.head, b.head) << text;
  ASSERT_EQ(a.labels, b.labels) << text;
  ASSERT_EQ(a.dtype, b.dtype) << text;
  ASSERT_EQ(a.eos_ids, b.eos_ids) << text;
  ASSERT_EQ(a.bos_id, b.bos_id) << text;
  ASSERT_EQ(a.pad_id, b.pad_id) << text;
  ASSERT_EQ(a.name_or_path, b.name_or_path) << text;
}

TEST(HfConfigProperty, WhatIsReadIsWrittenAndReadAgainAlike) {
  Rng rng(seed());
  SCOPED_TRACE("COHORT_SEED=" + std::to_string(seed()));
  Draw draw(rng);
  constexpr int k_draws = 300;  // of each family
  for (std::string_view name : family_names())
    for (int i = 0; i < k_draws; ++i) {
      const std::string text = random_config(draw, *find_family(name));
      const auto read = read_hf_config(text, "m");
      ASSERT_TRUE(read) << read.error().detail << text;
      ASSERT_TRUE(read->unknown_keys.empty()) << read->unknown_keys.front() << text;
      const std::string written = write_hf_config(*read);
      const auto again = read_hf_config(written, "m");
      ASSERT_TRUE(again) << again.error().detail << written;
      ASSERT_TRUE(again->unknown_keys.empty()) << again->unknown_keys.front() << written;
      ASSERT_TRUE(again->notices.empty()) << again->notices.front() << written;
      assert_equal(*again, *read, text + written);
      ASSERT_EQ(write_hf_config(*again), written);
    }
}

}  // namespace
}  // namespace cohort::model::hf_config_property_test
