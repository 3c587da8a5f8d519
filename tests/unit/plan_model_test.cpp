// Shapes: published parameter counts, config.json, names, card types.
#include <gtest/gtest.h>

#include "runtime/model/hf_config.hpp"
#include "runtime/plan/estimate/card_types.hpp"
#include "runtime/plan/estimate/memory_model.hpp"

namespace cohort::plan {
namespace {

using model::find_model;
using model::read_hf_config;

uint64_t parameters(std::string_view name) {
  auto shape = find_model(name);
  EXPECT_TRUE(shape) << name;
  EXPECT_TRUE(model::check_shape(*shape)) << name;
  return shape ? model::parameter_count(*shape) : 0;
}

/// Sum over the families whose names begin with `prefix`, of one layer.
uint64_t layer_elements(const ModelShape& shape, std::string_view prefix) {
  uint64_t sum = 0;
  for (const ShapeTensor& tensor : families_of(shape))
    if (tensor.spec.name.starts_with(prefix)) sum += tensor.elements() * tensor.count(1);
  return sum;
}

TEST(ModelTable, PublishedParameterCounts) {
  EXPECT_EQ(parameters("Qwen2.5-0.5B"), 494'032'768u);    // 0.49 B
  EXPECT_EQ(parameters("Qwen2.5-1.5B"), 1'543'714'304u);  // 1.54 B
  EXPECT_EQ(parameters("Qwen2.5-3B"), 3'085'938'688u);    // 3.09 B
  EXPECT_EQ(parameters("Qwen2.5-7B"), 7'615'616'512u);    // 7.62 B
  EXPECT_EQ(parameters("Qwen2-7B"), 7'615'616'512u);
  EXPECT_EQ(parameters("Qwen2.5-14B"), 14'770'033'664u);    // 14.77 B
  EXPECT_EQ(parameters("Qwen2.5-32B"), 32'763'876'352u);    // 32.76 B
  EXPECT_EQ(parameters("Qwen2.5-72B"), 72'706'203'648u);    // 72.71 B
  EXPECT_EQ(parameters("Qwen3-0.6B"), 596'049'920u);        // 0.60 B
  EXPECT_EQ(parameters("Qwen3-1.7B"), 1'720'574'976u);      // 1.72 B
  EXPECT_EQ(parameters("Qwen3-4B"), 4'022'468'096u);        // 4.02 B
  EXPECT_EQ(parameters("Qwen3-8B"), 8'190'735'360u);        // 8.19 B
  EXPECT_EQ(parameters("Qwen3-14B"), 14'768'307'200u);      // 14.77 B
  EXPECT_EQ(parameters("Qwen3-32B"), 32'762'123'264u);      // 32.76 B
  EXPECT_EQ(parameters("Qwen3-30B-A3B"), 30'532'122'624u);  // 30.53 B
  EXPECT_EQ(parameters("DeepSeek-V3"), 671'026'419'200u);   // without MTP
  EXPECT_EQ(parameters("DeepSeek-R1"), 671'026'419'200u);
  EXPECT_EQ(parameters("Qwen3-235B-A22B"), 235'093'634'560u);
  EXPECT_EQ(parameters("Qwen3-Coder-30B-A3B"), 30'532'122'624u);
}

// Of models that see or hear: the text part alone.
TEST(ModelTable, PlannedOnlyParameterCounts) {
  EXPECT_EQ(parameters("Qwen/Qwen2.5-VL-7B-Instruct"), 7'615'616'512u);
  EXPECT_EQ(parameters("Qwen2.5-Omni-3B"), 3'397'103'616u);
  EXPECT_EQ(parameters("Qwen3-VL-2B-Instruct"), 1'720'574'976u);
  EXPECT_EQ(parameters("Qwen3-VL-235B-A22B-Thinking"), 235'093'634'560u);
  EXPECT_EQ(parameters("Qwen3-Omni-30B-A3B-Thinking"), 30'532'646'912u);
  EXPECT_EQ(parameters("Qwen/Qwen3-Next-80B-A3B-Instruct"), 79'674'391'296u);
  EXPECT_EQ(parameters("Qwen3.5-0.8B"), 752'393'024u);
  EXPECT_EQ(parameters("Qwen3.5-2B"), 1'881'825'088u);
  EXPECT_EQ(parameters("Qwen3.5-4B"), 4'205'751'296u);
  EXPECT_EQ(parameters("Qwen3.5-9B"), 8'953'803'264u);
  EXPECT_EQ(parameters("Qwen3.5-27B"), 26'895'998'464u);
  EXPECT_EQ(parameters("Qwen3.5-35B-A3B"), 34'660'610'688u);
  EXPECT_EQ(parameters("Qwen3.5-122B-A10B"), 122'111'526'912u);
  EXPECT_EQ(parameters("Qwen3.5-397B-A17B"), 396'346'350'336u);
}

TEST(ModelTable, WhatNoEngineComputesIsSaid) {
  EXPECT_EQ(model::engine_gap(*find_model("Qwen3-30B-A3B")), "");
  EXPECT_NE(model::engine_gap(*find_model("Qwen3-Next-80B-A3B")).find("gated delta nets"),
            std::string::npos);
  EXPECT_NE(model::engine_gap(*find_model("Qwen3-VL-4B")).find("a part for vision"),
            std::string::npos);
}

// Qwen3-Next: 12 of 48 layers have attention with 2 key-value heads of 256; a sequence has a state
// of 32 heads * 128 * 128 in each of the other 36, and three columns of its convolution's input.
TEST(MemoryModel, AGatedDeltaNetHasAStateInPlaceOfKeysAndValues) {
  const ModelShape x = *find_model("Qwen3-Next-80B-A3B");
  EXPECT_EQ(kv_bytes_on_card(x, {}, 2), uint64_t{12} * 2 * 2 * 256 * 2);
  EXPECT_EQ(state_bytes_on_card(x, {}, 2), uint64_t{36} * (32 * 128 * 128 * 4 + 8192 * 3 * 2));
  const ShardCut four{.tp = 4};
  EXPECT_EQ(kv_bytes_on_card(x, four, 2), uint64_t{12} * 2 * 1 * 256 * 2);  // heads repeat
  EXPECT_EQ(state_bytes_on_card(x, four, 2), uint64_t{36} * (8 * 128 * 128 * 4 + 2048 * 3 * 2));
  const ShardCut stages{.pp = 5};  // 10 layers and 9: at most 3 with attention, 8 without
  EXPECT_EQ(kv_bytes_on_card(x, stages, 2), uint64_t{3} * 2 * 2 * 256 * 2);
  EXPECT_EQ(state_bytes_on_card(*find_model("Qwen3-8B"), {}, 2), 0u);
}

TEST(ModelTable, DeepSeekFamiliesAreThoseOfTheReshardTable) {
  ModelShape x = *find_model("DeepSeek-V3");
  uint64_t norms = layer_elements(x, "attention_norm") + layer_elements(x, "mlp_norm");
  EXPECT_EQ(layer_elements(x, "attention.") + norms, 187'121'664u);
  EXPECT_EQ(layer_elements(x, "experts.") / 256, 44'040'192u);
  EXPECT_EQ(layer_elements(x, "experts.w13") * 2,
            uint64_t{14} << 30);  // bytes, bf16: 14.0 GiB a layer
  EXPECT_EQ(layer_elements(x, "shared."), 44'040'192u);
  EXPECT_EQ(layer_elements(x, "mlp."), 396'361'728u);
  EXPECT_EQ(layer_elements(x, "embedding"), 926'679'040u);
  uint64_t experts = 0;
  for (const TensorSpec& tensor : reshard_tensors_of(x, 2).tensors)
    if (tensor.kind == TensorSpec::Kind::expert)
      experts += tensor.outer * tensor.split * tensor.inner * tensor.experts *
                 (tensor.end_layer - tensor.first_layer);
  EXPECT_EQ(experts, uint64_t{58} * 256 * 44'040'192);  // 653.909 B
  EXPECT_EQ(model_bytes(reshard_tensors_of(x, 2)), 2 * 671'026'419'200u);
}

/// What a publish moves: an adapter of rank 8 on every linear layer, in f32.
TEST(ModelFamilies, AnAdapterIsUnderTwoPercentOfItsModel) {
  ModelShape x = *find_model("Qwen2.5-0.5B");
  const auto lora = model::resolve_lora(x, {8, 16, false, {"all-linear"}}).value();
  const uint64_t adapter = model_bytes(reshard_tensors_of(x, 4, lora));
  EXPECT_EQ(adapter, uint64_t{4} * 24 * 8 * (2 * 1792 + 2 * 1024 + 3 * 5760));  // in + out each
  EXPECT_LT(100 * adapter, 2 * model_bytes(reshard_tensors_of(x, 2)));          // bf16: 1.78 %
  EXPECT_LT(100 * adapter, 1 * model_bytes(reshard_tensors_of(x, 4)));
}

TEST(ModelTable, NamesOfHubPathsAndCaches) {
  auto name = [](std::string_view path) {
    auto shape = find_model(path);
    return shape ? shape->name : shape.error().detail;
  };
  EXPECT_EQ(name("Qwen/Qwen2.5-0.5B-Instruct"), "Qwen2.5-0.5B");
  EXPECT_EQ(name("/data/models/Qwen2.5-7B"), "Qwen2.5-7B");
  EXPECT_EQ(name("/data/models/qwen3-8b-base/"), "Qwen3-8B");
  EXPECT_EQ(name("deepseek-ai/DeepSeek-R1-0528"), "DeepSeek-R1");
  EXPECT_EQ(name("Qwen/Qwen3-30B-A3B-Thinking-2507"), "Qwen3-30B-A3B");
  EXPECT_EQ(name("/c/hub/models--Qwen--Qwen3-4B/snapshots/1cfa9a7"), "Qwen3-4B");
}

TEST(ModelTable, AnotherModelIsNotMistakenAndNearestNamesAreGiven) {
  for (const char* other : {"deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "Qwen/Qwen2.5-7B-AWQ",
                            "Qwen/Qwen2.5-VL-8B-Instruct", "", "/"})
    EXPECT_EQ(find_model(other).error().code, Errc::not_found) << other;
  std::string text = find_model("Qwen/Qwen3-9B").error().detail;
  EXPECT_NE(text.find("nearest: Qwen3-4B, Qwen3-8B"), std::string::npos) << text;
}

TEST(HfConfig, ReadsTheFamily) {
  auto qwen = read_hf_config(R"({"model_type": "qwen2", "vocab_size": 151936,
    "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
    "num_key_value_heads": 2, "intermediate_size": 4864, "tie_word_embeddings": true,
    "max_position_embeddings": 32768, "rope_theta": 1000000})",
                             "mine");
  ASSERT_TRUE(qwen) << qwen.error().detail;
  ModelShape same = *find_model("Qwen2.5-0.5B");
  same.name = "mine";
  EXPECT_EQ(qwen->shape, same);
  auto moe = read_hf_config(R"({"model_type": "qwen3_moe", "vocab_size": 151936,
    "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "head_dim": 128,
    "num_key_value_heads": 4, "intermediate_size": 6144, "num_experts": 128,
    "num_experts_per_tok": 8, "moe_intermediate_size": 768, "decoder_sparse_step": 1,
    "mlp_only_layers": [], "norm_topk_prob": true, "rope_theta": 1000000,
    "max_position_embeddings": 40960})",
                            "Qwen3-30B-A3B");
  ASSERT_TRUE(moe) << moe.error().detail;
  EXPECT_EQ(moe->shape, *find_model("Qwen3-30B-A3B"));
  auto deepseek = read_hf_config(R"({"model_type": "deepseek_v3", "vocab_size": 129280,
    "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
    "num_key_value_heads": 128, "intermediate_size": 18432, "q_lora_rank": 1536,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "moe_layer_freq": 1,
    "max_position_embeddings": 163840, "rope_theta": 10000, "rope_scaling": {"type": "yarn",
    "factor": 40, "original_max_position_embeddings": 4096, "mscale": 1, "mscale_all_dim": 1,
    "beta_fast": 32, "beta_slow": 1}})",
                                 "DeepSeek-V3");
  ASSERT_TRUE(deepseek) << deepseek.error().detail;
  EXPECT_EQ(deepseek->shape, *find_model("DeepSeek-V3"));
}

constexpr const char* k_next = R"({"model_type": "qwen3_next", "vocab_size": 151936,
    "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 16, "head_dim": 256,
    "num_key_value_heads": 2, "intermediate_size": 5120, "num_experts": 512,
    "num_experts_per_tok": 10, "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512, "norm_topk_prob": true, "rope_theta": 10000000,
    "partial_rotary_factor": 0.25, "full_attention_interval": 4, "linear_num_key_heads": 16,
    "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "max_position_embeddings": 262144, "layer_types": LAYERS})";

std::string next_config(size_t full) {
  std::string layers;
  for (size_t i = 0; i < 48; ++i)
    layers += std::string(i > 0 ? ", " : "[") +
              ((i + 1) % full == 0 ? "\"full_attention\"" : "\"linear_attention\"");
  std::string text = k_next;
  return text.replace(text.find("LAYERS"), 6, layers + "]");
}

TEST(HfConfig, ReadsGatedDeltaNets) {
  auto next = read_hf_config(next_config(4), "Qwen3-Next-80B-A3B");
  ASSERT_TRUE(next) << next.error().detail;
  EXPECT_EQ(next->shape, *find_model("Qwen3-Next-80B-A3B"));
  auto other = read_hf_config(next_config(3), "m");
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().detail.find("full_attention in each 4th layer"), std::string::npos);
}

TEST(HfConfig, ReadsTheTextPartOfAModelThatSees) {
  auto sees = read_hf_config(R"({"model_type": "qwen3_vl", "tie_word_embeddings": true,
    "vision_config": {"depth": 24}, "text_config": {"model_type": "qwen3_vl_text",
    "vocab_size": 151936, "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 9728,
    "max_position_embeddings": 262144, "rope_theta": 1000000}})",
                             "Qwen3-VL-4B");
  ASSERT_TRUE(sees) << sees.error().detail;
  EXPECT_EQ(sees->shape, *find_model("Qwen3-VL-4B"));
  auto hears = read_hf_config(R"({"model_type": "qwen3_omni_moe", "thinker_config": {
    "vision_config": {}, "audio_config": {}, "text_config": {"model_type": "qwen3_omni_moe_text",
    "vocab_size": 152064, "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 768, "num_experts": 128,
    "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": true,
    "max_position_embeddings": 65536, "rope_theta": 1000000}}})",
                              "Qwen3-Omni-30B-A3B");
  ASSERT_TRUE(hears) << hears.error().detail;
  EXPECT_EQ(hears->shape, *find_model("Qwen3-Omni-30B-A3B"));
}

TEST(HfConfig, ErrorsNameTheKey) {
  auto error = [](std::string_view text) {
    auto shape = read_hf_config(text, "m");
    return shape ? "accepted" : shape.error().detail;
  };
  EXPECT_EQ(error("{"), "model m: config.json is not a JSON object");
  EXPECT_EQ(error("[1]"), "model m: config.json is not a JSON object");
  EXPECT_NE(error(R"({"model_type": "gpt2"})").find("model_type 'gpt2' is not one of"),
            std::string::npos);
  EXPECT_EQ(error(R"({"model_type": "llama"})"), "model m: config.json: no key 'vocab_size'");
  EXPECT_NE(error(R"({"model_type": "llama", "vocab_size": "a"})").find("'vocab_size' is \"a\""),
            std::string::npos);
  EXPECT_NE(error(R"({"model_type": "llama", "vocab_size": -1})").find("from 0 to 2^32"),
            std::string::npos);
  EXPECT_EQ(error(R"({"model_type": "llama", "vocab_size": 8, "hidden_size": 4,
              "num_hidden_layers": 1, "num_attention_heads": 3, "num_key_value_heads": 2,
              "intermediate_size": 8})"),
            "model m: num_attention_heads 3 is not a multiple of num_key_value_heads 2");
}

TEST(CardTypes, ByEveryNameInUse) {
  EXPECT_EQ(find_card_type("A2")->capacity_bytes, uint64_t{64} << 30);
  EXPECT_EQ(find_card_type("Ascend910B3")->name, "A2");
  EXPECT_EQ(find_card_type("910b")->series, Series::a2);
  EXPECT_EQ(find_card_type("ascend 910c")->cards_per_node, 16u);
  EXPECT_EQ(find_card_type("910A")->capacity_bytes, uint64_t{32} << 30);
  EXPECT_EQ(find_card_type("a100")->name, "A100-80");
  EXPECT_EQ(find_card_type("H200")->link_gb_per_s, 450);
  EXPECT_NE(find_card_type("V100").error().detail.find("910A, A2, A3, H100, H200, A100-40"),
            std::string::npos);
  for (const char* name : {"910A", "A2", "A3", "H100", "H200", "A100-40"})
    EXPECT_LT(find_card_type(name)->reserve_bytes, find_card_type(name)->capacity_bytes / 10);
}

}  // namespace
}  // namespace cohort::plan
