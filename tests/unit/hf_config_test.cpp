// What a config.json says in both spellings, what is refused, and the frequencies that follow.
#include "runtime/model/hf_config.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/outside_json.hpp"
#include "runtime/model/families.hpp"

namespace cohort::model {
namespace {

constexpr size_t k_deep = 400'000;  // they overflow the stack of what copies or prints them

std::string brackets() { return std::string(k_deep, '[') + std::string(k_deep, ']'); }

std::string json_of(const std::string& family, const std::string& more) {
  return R"({"model_type": ")" + family + R"(", "vocab_size": 50, "hidden_size": 36,
    "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 3,
    "intermediate_size": 40)" +
         (more.empty() ? "" : ", ") + more + "}";
}

ModelShape read(const std::string& family, const std::string& more = "") {
  auto shape = read_hf_config(json_of(family, more), "m");
  EXPECT_TRUE(shape) << shape.error().detail;
  return shape ? shape->shape : ModelShape{};
}

TEST(HfConfig, BothSpellingsOfRotaryPositions) {
  EXPECT_EQ(read("qwen3", R"("rope_theta": 1000000)").rope.theta, 1e6);
  EXPECT_EQ(read("qwen3", R"("rope_parameters": {"rope_theta": 5000000, "rope_type": "default"})"),
            read("qwen3", R"("rope_theta": 5000000, "rope_scaling": null)"));
  EXPECT_EQ(read("llama").rope.theta, 10000);  // files of Llama 2
  EXPECT_EQ(read("qwen2").rope.theta, 0);      // not known: no engine may guess it
  for (const char* key : {"type", "rope_type"}) {
    std::string scaling = R"("rope_scaling": {")" + std::string(key) + R"(": "yarn", "factor": 4})";
    EXPECT_EQ(read("qwen2", scaling).rope.type, "yarn");
  }
}

TEST(HfConfig, WhatAFileLeavesToItsFamily) {
  EXPECT_TRUE(read("qwen2").attention_bias);
  EXPECT_FALSE(read("qwen2").attention_output_bias);
  EXPECT_FALSE(read("llama").attention_bias);
  EXPECT_TRUE(read("llama", R"("attention_bias": true)").attention_output_bias);
  const std::string qwen2_experts = R"("num_experts": 4, "num_experts_per_tok": 2,
      "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8)";
  EXPECT_TRUE(read("qwen2_moe", qwen2_experts).attention_bias);
  const ModelShape all = read("qwen2_moe", qwen2_experts + R"(, "use_sliding_window": true,
      "sliding_window": 8, "max_window_layers": 1)");  // transformers 4 windows every layer
  EXPECT_EQ(all.window_of(0), 8);
  EXPECT_FALSE(read("qwen2_moe", qwen2_experts + R"(, "qkv_bias": false)").attention_bias);
  EXPECT_EQ(read("llama").head_dim, 6);
  EXPECT_EQ(read("qwen3").head_dim, 128);
  EXPECT_TRUE(read("qwen3").qk_norm);
  EXPECT_EQ(read("mistral").sliding_window, 4096);
  EXPECT_EQ(read("mistral", R"("sliding_window": null)").sliding_window, 0);
  EXPECT_EQ(read("qwen2", R"("sliding_window": 4096)").sliding_window, 0);
  EXPECT_EQ(read("qwen2", R"("sliding_window": 99, "use_sliding_window": true,
                          "max_window_layers": 0)")
                .sliding_window,
            99);
  const char* experts = R"("num_local_experts": 4, "num_experts_per_tok": 2,
      "moe_intermediate_size": 8)";  // transformers 5
  EXPECT_EQ(read("qwen3_moe", experts).moe->num_experts, 4);
}

TEST(HfConfig, WhatNoFamilyHasIsRefused) {
  auto refusal = [](const std::string& more, const std::string& family = "llama") {
    auto shape = read_hf_config(json_of(family, more), "m");
    return shape ? "accepted" : shape.error().detail;
  };
  EXPECT_EQ(refusal(R"("mlp_bias": true)", "qwen3"),
            "model m: config.json: mlp_bias: biases in the MLP are not of the family qwen3");
  EXPECT_EQ(refusal(R"("hidden_act": "gelu")"),
            "model m: config.json: 'hidden_act' is not \"silu\"");
  EXPECT_EQ(refusal(R"("rope_theta": "a")"), "model m: config.json: 'rope_theta' is not a number");
  EXPECT_EQ(refusal(R"("rope_scaling": {"rope_theta": []})"),
            "model m: config.json: rope_scaling: 'rope_theta' is not a number");
  EXPECT_EQ(refusal(R"("rope_scaling": [4])"),
            "model m: config.json: rope_scaling is not an object");
  EXPECT_EQ(refusal(R"("partial_rotary_factor": 0.5)"),
            "model m: config.json: partial_rotary_factor must be 1: whole heads rotate in these "
            "families");
  EXPECT_EQ(
      refusal(R"("use_sliding_window": true, "sliding_window": 8, "layer_types": ["a"])", "qwen2"),
      "model m: config.json: 'layer_types' is not a list of num_hidden_layers entries");
}

HfConfig config_of(const std::string& family, const std::string& more) {
  auto config = read_hf_config(json_of(family, more), "m");
  EXPECT_TRUE(config) << config.error().detail;
  return config ? *config : HfConfig{};
}

TEST(HfConfig, AKeyIsUsedOrHarmlessOrNamed) {
  using Keys = std::vector<std::string>;
  EXPECT_EQ(config_of("llama", R"("use_cache": true, "_name_or_path": "x", "logits_scaling": 8,
                       "final_logit_softcapping": null, "is_new": false, "attn_scale": 2)")
                .unknown_keys,
            (Keys{"attn_scale", "logits_scaling"}));
  EXPECT_EQ(config_of("llama", R"("mlp_bias": true)").unknown_keys, Keys{});
  EXPECT_TRUE(read("llama", R"("mlp_bias": true)").mlp_bias);
  EXPECT_TRUE(read("qwen2", R"("attention_bias": false)").attention_bias);  // ignored there
}

/// The refusal of a config.json, or "".
std::string refusal_of(const std::string& family, const std::string& more) {
  const auto config = read_hf_config(json_of(family, more), "m");
  return config ? "" : config.error().detail;
}

TEST(HfConfig, NestedTextIsRefused) {
  for (const char* key : {"vocab_size", "rope_scaling", "eos_token_id", "foo", "hidden_act"})
    EXPECT_NE(refusal_of("llama", fmt::format(R"("{}": {})", key, brackets()))
                  .find("model m: config.json is nested too deeply"),
              std::string::npos);
  EXPECT_FALSE(is_nested_deeper(R"({"a": ["[[[[\"[[[["], "b": []})", 2));
  EXPECT_TRUE(is_nested_deeper(R"({"a": ["\\"], "b": [[]]})", 2));
}

/// What transformers does not find it refuses; each has a value that would be another model.
TEST(HfConfig, AScalingOfPositionsWithoutItsNumbersIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"factor": 4})", "rope_scaling: no key 'rope_type'"},
      {R"({"rope_type": 3, "factor": 2})", "rope_scaling: 'rope_type' is not a text"},
      {R"({"type": {}, "rope_type": "linear", "factor": 2})", "rope_scaling: 'type' is not a text"},
      {R"({"rope_type": "linear"})", "rope_scaling: no key 'factor', which rope_type linear"},
      {R"({"type": "yarn", "factor": null})",
       "rope_scaling: no key 'factor', which rope_type yarn"},
      {R"({"type": "dynamic"})", "rope_scaling: no key 'factor', which rope_type dynamic"},
      {R"({"type": "dynamic", "factor": -2})", "rope_scaling: 'factor' is not positive"},
      {R"({"type": "dynamic", "factor": 2})", "max_position_embeddings"},
      {R"({"rope_type": "llama3", "factor": 8, "original_max_position_embeddings": 16,
           "high_freq_factor": 4})",
       "rope_scaling: no key 'low_freq_factor', which rope_type llama3"},
      {R"({"rope_type": "llama3", "factor": 8, "original_max_position_embeddings": 16,
           "low_freq_factor": 1})",
       "rope_scaling: no key 'high_freq_factor', which rope_type llama3"},
  };
  for (const auto& [scaling, message] : cases)
    EXPECT_NE(refusal_of("llama", std::string(R"("rope_scaling": )") + scaling).find(message),
              std::string::npos)
        << refusal_of("llama", std::string(R"("rope_scaling": )") + scaling);
  const std::string dynamic = R"("rope_scaling": {"type": "dynamic", "factor": 2}, )";
  EXPECT_NE(refusal_of("llama", dynamic + R"("max_position_embeddings": 0)"), "");
  EXPECT_EQ(refusal_of("llama", dynamic + R"("max_position_embeddings": 64)"), "");
  EXPECT_EQ(refusal_of("llama", R"("rope_parameters": {"rope_theta": 5})"), "");  // default
}

TEST(HfConfig, ABaseThatNobodySaysIsToldOfWhereverItIsMissing) {
  for (const char* more : {"", R"("rope_parameters": {"rope_type": "linear", "factor": 2})",
                           R"("rope_theta": null)", R"("rope_parameters": {"rope_theta": null})"}) {
    const std::vector<std::string> notices = config_of("llama", more).notices;
    ASSERT_EQ(notices.size(), 1U) << more;
    EXPECT_EQ(notices.front(), "config.json: no rope_theta: 10000, the default of llama");
  }
  EXPECT_EQ(config_of("llama", R"("rope_parameters": {"rope_theta": 777})").notices.size(), 0U);
}

TEST(HfConfig, NumbersAndWordsThatNoModelHasAreRefused) {
  EXPECT_NE(refusal_of("llama", R"("rms_norm_eps": -1)").find("'rms_norm_eps'"), std::string::npos);
  EXPECT_NE(refusal_of("llama", R"("rms_norm_eps": 0)").find("'rms_norm_eps'"), std::string::npos);
  EXPECT_NE(refusal_of("llama", R"("hidden_act": 1.5)").find("'hidden_act'"), std::string::npos);
  EXPECT_EQ(refusal_of("llama", R"("hidden_act": "swish")"), "");  // silu by another name
  const std::string experts = R"("num_experts": 4, "num_experts_per_tok": 2,
      "moe_intermediate_size": 8, "decoder_sparse_step": 0)";
  EXPECT_NE(refusal_of("qwen3_moe", experts).find("'decoder_sparse_step' is 0"), std::string::npos);
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
    EXPECT_NE(refusal_of(family, R"("layer_types": ["full_attention"])").find("'layer_types'"),
              std::string::npos);
    EXPECT_NE(refusal_of(family, R"("layer_types": ["chunked_attention", "full_attention"])")
                  .find("'layer_types'"),
              std::string::npos);
  }
  EXPECT_NE(refusal_of("qwen2", R"("layer_types": ["sliding_attention", "full_attention"])")
                .find("no window is in use"),
            std::string::npos);
}

std::string deepseek(const std::string& more) {
  return R"("n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 16,
      "first_k_dense_replace": 1, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
      "v_head_dim": 6)" +
         (more.empty() ? "" : ", " + more);
}

/// transformers chooses by groups in V3 without reading topk_method, in V2 where it says so, and
/// does not read V2's norm_topk_prob.
TEST(HfConfig, HowDeepSeekChoosesExperts) {
  const std::string groups = R"("n_group": 4, "topk_group": 2)";
  const HfConfig odd = config_of("deepseek_v3", deepseek(groups + R"(, "topk_method": "greedy")"));
  EXPECT_EQ(odd.shape.moe->num_groups, 4);
  ASSERT_EQ(odd.notices.size(), 1U);
  EXPECT_NE(odd.notices.front().find("topk_method 'greedy' has no effect"), std::string::npos);
  EXPECT_EQ(read("deepseek_v2", deepseek(groups)).moe->num_groups, 1);
  const std::string limited = R"(, "topk_method": "group_limited_greedy")";
  EXPECT_EQ(read("deepseek_v2", deepseek(groups + limited)).moe->topk_groups, 2);
  const HfConfig normed = config_of("deepseek_v2", deepseek(R"("norm_topk_prob": true)"));
  EXPECT_FALSE(normed.shape.moe->norm_topk_prob);
  EXPECT_EQ(normed.notices.size(), 1U);
  EXPECT_EQ(read("deepseek_v3", deepseek(groups)).moe->shared_intermediate_size, 16);
  EXPECT_EQ(read("deepseek_v2", deepseek("")).moe->shared_intermediate_size, 32);
  EXPECT_NE(refusal_of("deepseek_v2", deepseek(R"("topk_group": 2)" + limited)).find("'n_group'"),
            std::string::npos);
  const std::pair<const char*, const char*> cases[] = {
      {R"("n_group": null, "topk_group": 2)", "'n_group'"},
      {R"("n_group": 4, "topk_group": null)", "'topk_group'"},
      {R"("n_group": 3, "topk_group": 2)", "n_group 3 does not divide num_experts 8"},
      {R"("n_group": 4, "topk_group": 8)", "topk_group 8 is not in 1..4"},
      {R"("n_group": 4, "topk_group": 0)", "topk_group 0 is not in 1..4"},
      {R"("n_group": 4, "topk_group": 1)", "experts_per_token 3 is over the 2 experts"},
  };
  for (const auto& [keys, message] : cases)
    EXPECT_NE(refusal_of("deepseek_v3", deepseek(keys)).find(message), std::string::npos)
        << refusal_of("deepseek_v3", deepseek(keys));
}

TEST(HfConfig, LayersWithAWindow) {
  const std::string is_used = R"("use_sliding_window": true, "sliding_window": 8)";
  EXPECT_EQ(read("qwen2", is_used).sliding_window, 0);  // from layer 28 on: none of the two
  ModelShape x = read("qwen2", is_used + R"(, "max_window_layers": 1)");
  EXPECT_EQ(x.window_of(0), 0);
  EXPECT_EQ(x.window_of(1), 8);
  x = read("qwen3", is_used + R"(, "layer_types": ["sliding_attention", "full_attention"])");
  EXPECT_EQ(x.window_of(0), 8);
  EXPECT_EQ(x.window_of(1), 0);
  EXPECT_EQ(read_hf_config(write_hf_config({.shape = x}), "m")->shape, x);
  EXPECT_EQ(read("mistral").window_of(1), 4096);
  // Qwen3-MoE and Mistral have no key layer_types: their window is in every layer.
  const std::string types = R"("layer_types": ["full_attention", "sliding_attention"])";
  const std::string experts = R"(, "num_experts": 4, "num_experts_per_tok": 2,
      "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8, )";
  const HfConfig all = config_of("qwen3_moe", is_used + experts + types);
  EXPECT_EQ(all.shape.window_of(0), 8);
  ASSERT_EQ(all.notices.size(), 1U);
  EXPECT_NE(all.notices.front().find("layer_types has no effect"), std::string::npos);
  EXPECT_EQ(read("mistral", types).window_of(0), 4096);
  x = read("qwen2_moe", is_used + experts + types);
  EXPECT_EQ(x.window_of(0), 0);
  EXPECT_EQ(x.window_of(1), 8);
}

TEST(HfConfig, HeadsAndIds) {
  const HfConfig score = config_of("qwen2", R"("architectures": ["Qwen2ForSequenceClassification"],
      "id2label": {"0": "a", "1": "b", "2": "c"}, "eos_token_id": [5, 2], "pad_token_id": 0,
      "torch_dtype": "bfloat16")");
  EXPECT_EQ(score.head, HfConfig::Head::sequence_score);
  EXPECT_EQ(score.labels, 3);
  EXPECT_EQ(score.eos_ids, (std::vector<int64_t>{5, 2}));
  EXPECT_EQ(score.pad_id, 0);
  EXPECT_EQ(score.dtype, "bfloat16");
  const HfConfig back = read_hf_config(write_hf_config(score), "m").value();
  EXPECT_EQ(back.labels, 3);
  EXPECT_EQ(back.eos_ids, score.eos_ids);
  EXPECT_EQ(back.shape, score.shape);
  EXPECT_EQ(config_of("llama", "").head, HfConfig::Head::language);
}

RopeShape scaled(const std::string& type, double factor, double original) {
  RopeShape rope;
  rope.type = type;
  rope.factor = factor;
  rope.original_max_position = original;
  return rope;
}

TEST(Rope, FrequenciesByHand) {
  RopeShape plain;
  EXPECT_EQ(rope_frequencies(plain, 4).inverse, (std::vector<float>{1, 0.01F}));
  EXPECT_EQ(rope_frequencies(scaled("linear", 4, 0), 4).inverse,
            (std::vector<float>{0.25F, 0.0025F}));
  // Wavelengths 6.28 and 628 at an original length of 64: below 16 nothing changes, above 64 all.
  EXPECT_EQ(rope_frequencies(scaled("llama3", 8, 64), 4).inverse,
            (std::vector<float>{1, 0.00125F}));
  const RopeFrequencies yarn = rope_frequencies(scaled("yarn", 4, 32), 16);
  EXPECT_EQ(yarn.inverse.front(), 1);
  EXPECT_FLOAT_EQ(yarn.inverse.back(), std::pow(1e4F, -14.0F / 16) / 4);
  EXPECT_FLOAT_EQ(yarn.attention_factor, 0.1F * std::log(4.0F) + 1);
}

/// To the bit: what transformers 4.57.6 computes for Llama 3.2 (heads of 64) and DeepSeek-V3.
TEST(Rope, FrequenciesAreRoundedAsTheReferenceRounds) {
  RopeShape llama = scaled("llama3", 32, 8192);
  llama.theta = 5e5;
  EXPECT_EQ(rope_frequencies(llama, 64).inverse,
            (std::vector<float>{
                0x1.00000p+0F,   0x1.53c38cp-1F,  0x1.c2ef78p-2F,  0x1.2b3dc6p-2F,  0x1.8d276p-3F,
                0x1.078d4p-3F,   0x1.5dc95ap-4F,  0x1.d03ccep-5F,  0x1.34119p-5F,   0x1.98de92p-6F,
                0x1.0f5386p-6F,  0x1.681adap-7F,  0x1.ddee9ep-8F,  0x1.3d2804p-8F,  0x1.a4ee4p-9F,
                0x1.524f36p-10F, 0x1.c26c4p-12F,  0x1.9731eep-14F, 0x1.46831ap-16F, 0x1.b15902p-17F,
                0x1.1f91fp-17F,  0x1.7da9e8p-18F, 0x1.fa8b86p-19F, 0x1.5024d6p-19F, 0x1.be2188p-20F,
                0x1.280d96p-20F, 0x1.88ec2p-21F,  0x1.04be68p-21F, 0x1.5a0f4ep-22F, 0x1.cb4a9ap-23F,
                0x1.30c94ep-23F, 0x1.94836p-24F}));
  EXPECT_EQ(rope_frequencies(scaled("yarn", 40, 4096), 64).inverse,
            (std::vector<float>{
                0x1.00000p+0F,   0x1.7ff222p-1F,  0x1.1feb34p-1F,  0x1.afd136p-2F,  0x1.43d136p-2F,
                0x1.e5a846p-3F,  0x1.6c310ep-3F,  0x1.111aeep-3F,  0x1.99999ap-4F,  0x1.33281ap-4F,
                0x1.ccab84p-5F,  0x1.3f8b74p-5F,  0x1.b86436p-6F,  0x1.2d1b86p-6F,  0x1.97e506p-7F,
                0x1.111aeep-7F,  0x1.6872b2p-8F,  0x1.d2e0ccp-9F,  0x1.26d42cp-9F,  0x1.67459ap-10F,
                0x1.9e7c6ep-11F, 0x1.b32624p-12F, 0x1.74eea6p-13F, 0x1.17a8e2p-15F, 0x1.a36e2ep-16F,
                0x1.3a8746p-16F, 0x1.d7b9ep-17F,  0x1.61bea2p-17F, 0x1.094566p-17F, 0x1.8dd9bap-18F,
                0x1.2a5884p-18F, 0x1.bf749ep-19F}));
}

TEST(Rope, FrequenciesFallAndLieBetweenTheOldAndTheDivided) {
  for (const char* type : {"linear", "llama3", "yarn"})
    for (int64_t head_dim : {2, 8, 64, 128})
      for (double original : {32.0, 8192.0}) {
        const RopeShape rope = scaled(type, 8, original);
        ASSERT_TRUE(check_rope(rope));
        const auto scaled_to = rope_frequencies(rope, head_dim).inverse;
        const auto plain = rope_frequencies(RopeShape{}, head_dim).inverse;
        for (size_t j = 0; j < plain.size(); ++j) {
          EXPECT_LE(scaled_to[j], plain[j] * 1.000001F) << type << " " << j;
          EXPECT_GE(scaled_to[j], plain[j] / 8.000001F) << type << " " << j;
          if (j > 0) {
            EXPECT_LT(scaled_to[j], scaled_to[j - 1]) << type << " " << j;
          }
        }
      }
}

TEST(Rope, WhatIsNoFunctionOfThePositionIsRefused) {
  EXPECT_NE(check_rope(scaled("dynamic", 2, 0)).error().detail.find("use yarn"), std::string::npos);
  EXPECT_NE(check_rope(scaled("longrope", 2, 0)).error().detail.find("'longrope' is not one of"),
            std::string::npos);
  EXPECT_FALSE(check_rope(scaled("yarn", 0, 32)));
  EXPECT_FALSE(check_rope(scaled("llama3", 8, 0)));
  RopeShape no_theta;
  no_theta.theta = 0;
  EXPECT_NE(check_rope(no_theta).error().detail.find("must say rope_theta"), std::string::npos);
}

}  // namespace
}  // namespace cohort::model
