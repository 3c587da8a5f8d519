// The one description of a model: its tensors by family, and config.json in both spellings.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/model/families.hpp"
#include "runtime/model/hf_config.hpp"
#include "runtime/model/hf_folder.hpp"
#include "runtime/model/lora.hpp"
#include "runtime/model/tensors.hpp"

namespace cohort::model {
namespace {

/// SmolLM2's heads (9 of 3, no powers of two) in small.
ModelShape shape_of(const std::string& family) {
  const Family& row = *find_family(family);
  ModelShape x;
  x.family = family;
  x.vocab_size = 50;
  x.hidden_size = 36;
  x.num_hidden_layers = 2;
  x.num_attention_heads = 9;
  x.num_key_value_heads = 3;
  x.head_dim = 8;
  x.intermediate_size = 40;
  x.attention_bias = row.attention_bias;
  x.qk_norm = row.qk_norm;
  x.tie_word_embeddings = false;
  x.max_position = 64;
  return x;
}

/// "part name rows columns cut" of the tensors of one layer.
std::vector<std::string> layer_lines(const ModelShape& x, int64_t layer) {
  static constexpr const char* k_cuts[] = {"whole", "rows", "columns"};
  std::vector<std::string> lines;
  for (const Tensor& tensor : tensors_of(x))
    if (tensor.is_in(layer))
      lines.push_back(tensor.name + " " + std::to_string(tensor.rows) + " " +
                      std::to_string(tensor.columns) + " " + k_cuts[static_cast<int>(tensor.cut)] +
                      (tensor.is_stacked  ? " stacked"
                       : tensor.is_joined ? " joined"
                                          : ""));
  return lines;
}

TEST(ModelTensors, ALlamaLayerHasNoBiasAndNoNormOfQueries) {
  EXPECT_EQ(
      layer_lines(shape_of("llama"), 1),
      (std::vector<std::string>{
          "input_layernorm.weight 36 0 whole", "self_attn.q_proj.weight 72 36 rows",
          "self_attn.k_proj.weight 24 36 rows joined", "self_attn.v_proj.weight 24 36 rows joined",
          "self_attn.o_proj.weight 36 72 columns", "post_attention_layernorm.weight 36 0 whole",
          "mlp.gate_proj.weight 40 36 rows", "mlp.up_proj.weight 40 36 rows stacked",
          "mlp.down_proj.weight 36 40 columns"}));
}

TEST(ModelTensors, WhatQwen2AndQwen3Add) {
  auto added = [](const std::string& family) {
    std::vector<std::string> lines = layer_lines(shape_of(family), 0);
    for (const std::string& line : layer_lines(shape_of("llama"), 0)) std::erase(lines, line);
    return lines;
  };
  EXPECT_EQ(added("qwen2"), (std::vector<std::string>{"self_attn.q_proj.bias 72 0 rows",
                                                      "self_attn.k_proj.bias 24 0 rows joined",
                                                      "self_attn.v_proj.bias 24 0 rows joined"}));
  EXPECT_EQ(added("qwen3"), (std::vector<std::string>{"self_attn.q_norm.weight 8 0 whole",
                                                      "self_attn.k_norm.weight 8 0 whole"}));
}

TEST(ModelTensors, NamesOfACheckpoint) {
  ModelShape x = shape_of("qwen3");
  x.moe = MoeShape{
      .num_experts = 4, .experts_per_token = 2, .moe_intermediate_size = 8, .first_moe_layer = 1};
  std::vector<std::string> names;
  for (const Tensor& tensor : tensors_of(x))
    if (tensor.is_in(1) || tensor.where != Where::layers)
      names.push_back(tensor_name(tensor, 1, 3));
  EXPECT_EQ(names.front(), "model.embed_tokens.weight");
  EXPECT_EQ(names.back(), "lm_head.weight");
  for (const char* name :
       {"model.layers.1.self_attn.q_norm.weight", "model.layers.1.mlp.gate.weight",
        "model.layers.1.mlp.experts.3.down_proj.weight", "model.norm.weight"})
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  EXPECT_EQ(std::find(names.begin(), names.end(), "model.layers.1.mlp.gate_proj.weight"),
            names.end());
}

TEST(ModelNames, RandomStandsInFrontOfANameOrOfFiles) {
  EXPECT_EQ(*find_model("random:Qwen2.5-0.5B"), *find_model("Qwen2.5-0.5B"));
  const ModelSource named = source_of("random:Qwen2.5-0.5B");
  EXPECT_TRUE(named.is_random);
  EXPECT_EQ(named.name, "Qwen2.5-0.5B");
  EXPECT_EQ(named.config, "");
  const ModelSource folder = source_of("/nonexistent/random:x");
  EXPECT_FALSE(folder.is_random);
  EXPECT_EQ(folder.name, "/nonexistent/random:x");
  EXPECT_EQ(source_of("").config, "");
  EXPECT_EQ(source_of("random:").config, "");
}

/// Every table shape and every family, dense and with experts.
std::vector<ModelShape> all_shapes() {
  std::vector<ModelShape> shapes;
  for (std::string_view family : family_names()) shapes.push_back(shape_of(std::string(family)));
  for (const char* name : {"Qwen2.5-0.5B", "Qwen3-8B", "Qwen3-30B-A3B", "DeepSeek-V3"})
    shapes.push_back(*find_model(name));
  return shapes;
}

TEST(ModelTensors, OrderIsThatOfTheFlatBuffer) {  // MODEL-1
  for (const ModelShape& x : all_shapes())
    for (HeadKind head : {HeadKind::language, HeadKind::value}) {
      std::vector<Tensor> tensors = tensors_of(x, head);
      bool was_in_layers = false;
      for (size_t i = 1; i < tensors.size(); ++i) {
        const Tensor &before = tensors[i - 1], &tensor = tensors[i];
        was_in_layers |= tensor.where == Where::layers;
        EXPECT_EQ(tensor.where == Where::last_stage, was_in_layers && tensor.end_layer == 0);
        if (before.first_layer == tensor.first_layer && before.end_layer == tensor.end_layer) {
          EXPECT_LE(before.part, tensor.part) << x.name << " " << tensor.name;
        }
        if (!tensor.is_joined) continue;
        EXPECT_EQ(before.part, tensor.part) << tensor.name;
        EXPECT_EQ(before.columns, tensor.columns) << tensor.name;
        EXPECT_EQ(before.kind, tensor.kind) << tensor.name;
        EXPECT_EQ(tensor.is_stacked, before.family == tensor.family) << tensor.name;
      }
    }
}

TEST(ModelTensors, EveryCutGoesBetweenEqualParts) {
  for (const ModelShape& x : all_shapes())
    for (const Tensor& tensor : tensors_of(x)) {
      if (tensor.cut == Cut::whole) continue;
      EXPECT_EQ((tensor.cut == Cut::rows ? tensor.rows : tensor.columns) % tensor.parts, 0)
          << x.name << " " << tensor.name;
      EXPECT_EQ(tensor.kind == Kind::residual, tensor.cut == Cut::columns) << tensor.name;
    }
}

std::vector<std::string> targets_of(const ModelShape& x, std::vector<std::string> asked) {
  return resolve_lora(x, {4, 8, false, std::move(asked)}).value().targets;
}

TEST(Lora, TargetsAreLinearLayersByName) {
  const ModelShape x = shape_of("qwen2");
  const std::vector<std::string> all = {"down_proj", "gate_proj", "k_proj", "o_proj",
                                        "q_proj",    "up_proj",   "v_proj"};
  EXPECT_EQ(targets_of(x, {"all-linear"}), all);
  EXPECT_EQ(targets_of(x, {"all", "q_proj"}), all);
  EXPECT_EQ(targets_of(x, {"v_proj", "q_proj", "v_proj"}),
            (std::vector<std::string>{"q_proj", "v_proj"}));
  for (std::vector<std::string> bad : {std::vector<std::string>{"lm_head"}, {"_proj"}, {}}) {
    const auto refused = resolve_lora(x, {4, 8, false, bad});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Errc::invalid_argument);
  }
  ModelShape experts = x;
  experts.moe = MoeShape{.num_experts = 4, .experts_per_token = 2, .moe_intermediate_size = 8};
  EXPECT_NE(resolve_lora(experts, {4, 8, false, {"all"}}).error().detail.find("experts"),
            std::string::npos);
}

Expected<LoraShape> matched(const ModelShape& x, const std::string& pattern) {
  return resolve_lora(x, {4, 8, false, {pattern}, true});
}

TEST(Lora, APatternMatchesFullNamesFromEndToEnd) {
  const ModelShape x = shape_of("qwen2");  // several layers
  ASSERT_GE(x.num_hidden_layers, 2);
  EXPECT_EQ(matched(x, R"(.*\.(q|v)_proj)").value().targets,
            (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(
      matched(x, R"(model\.layers\.1\.mlp\.(up|down)_proj)").value().targets,
      (std::vector<std::string>{"model.layers.1.mlp.down_proj", "model.layers.1.mlp.up_proj"}));
  EXPECT_EQ(matched(x, R"(.*\.self_attn\..*|.*\.0\.mlp\.up_proj)").value().targets,
            (std::vector<std::string>{"k_proj", "model.layers.0.mlp.up_proj", "o_proj", "q_proj",
                                      "v_proj"}));
  EXPECT_FALSE(matched(x, ".*proj").value().is_pattern);
  // As re.fullmatch has it: a part of a name is no match.
  EXPECT_NE(matched(x, "q_proj").error().detail.find("must match a module's full name"),
            std::string::npos);
  EXPECT_FALSE(matched(x, "lm_head|.*embed.*").has_value());
  EXPECT_FALSE(matched(x, "(q_proj").has_value());
  EXPECT_FALSE(matched(x, R"((?<=x)q_proj)").has_value());
  EXPECT_NE(matched(x, "(?:(?:[a-z_.0-9]+)+)+!").error().detail.find("too long"),
            std::string::npos);
}

TEST(Lora, AIsCutAsTheColumnsAndBAsTheRows) {  // LORA-1
  const ModelShape x = shape_of("llama");
  const LoraShape lora = resolve_lora(x, {4, 8, false, {"k_proj", "o_proj"}}).value();
  const std::vector<Tensor> tensors = lora_tensors_of(x, lora);
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_EQ(tensors[0].rows, 4);
  EXPECT_EQ(tensors[0].columns, 36);
  EXPECT_EQ(tensors[0].cut, Cut::whole);
  EXPECT_EQ(tensors[1].rows, 24);
  EXPECT_EQ(tensors[1].cut, Cut::rows);
  EXPECT_EQ(tensors[1].parts, 3);
  EXPECT_EQ(tensors[2].cut, Cut::columns);
  EXPECT_EQ(tensors[2].columns, 72);
  EXPECT_EQ(tensors[3].cut, Cut::whole);
  EXPECT_EQ(lora_tensor_name(tensors[1], 1),
            "base_model.model.model.layers.1.self_attn.k_proj.lora_B.weight");
  EXPECT_EQ(lora_modules_of(x, lora)[0].first_row, 72);  // behind q
}

TEST(Lora, ATargetMayBeOneLayers) {
  const ModelShape x = shape_of("llama");
  const LoraShape lora = resolve_lora(x, {4, 8, true, {"model.layers.1.mlp.up_proj"}}).value();
  const std::vector<Tensor> tensors = lora_tensors_of(x, lora);
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_FALSE(tensors[0].is_in(0));
  EXPECT_TRUE(tensors[0].is_in(1));
  EXPECT_DOUBLE_EQ(lora.scale(), 4);
}

TEST(Lora, AdapterConfigIsReadAsItIsWritten) {
  const LoraShape lora{16, 24, true, {"q_proj", "v_proj"}};
  EXPECT_EQ(parse_adapter_config(write_adapter_config(lora, "base"), "x").value(), lora);
  for (const char* bad :
       {"[]", R"({"peft_type": "IA3"})", R"({"peft_type": "LORA", "use_dora": true})",
        R"({"peft_type": "LORA", "modules_to_save": ["lm_head"]})",
        R"({"peft_type": "LORA", "exclude_modules": "lm_head"})",
        R"({"peft_type": "LORA", "layers_to_transform": [0]})", R"({"peft_type": "LORA", "r": 0})",
        R"({"peft_type": "LORA", "bias": "all"})",
        R"({"peft_type": "LORA", "rank_pattern": {"q_proj": 4}})"})
    EXPECT_FALSE(parse_adapter_config(bad, "x").has_value()) << bad;
}

TEST(Lora, ATextOfTargetModulesIsAPattern) {
  const auto read = [](const char* targets) {
    return parse_adapter_config(
               fmt::format(R"({{"peft_type": "LORA", "target_modules": {}}})", targets), "x")
        .value();
  };
  EXPECT_TRUE(read(R"(".*_proj")").is_pattern);
  EXPECT_FALSE(read(R"("all-linear")").is_pattern);
  EXPECT_FALSE(read(R"(["q_proj"])").is_pattern);
  EXPECT_TRUE(is_target_pattern(".*_proj"));
  EXPECT_FALSE(is_target_pattern("model.layers.0.mlp.up_proj"));
}

TEST(ModelTensors, ACriticHasOneRowInPlaceOfTheHead) {
  ModelShape x = shape_of("llama");
  x.tie_word_embeddings = true;
  EXPECT_EQ(tensors_of(x).back().name, "model.norm.weight");
  EXPECT_EQ(tensors_of(x).front().where, Where::both_ends);
  EXPECT_EQ(tensors_of(x, HeadKind::value).back().name, "score.weight");
  EXPECT_EQ(tensors_of(x, HeadKind::value).front().where, Where::first_stage);
}

// ---- config.json -----------------------------------------------------------------------------

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

TEST(HfConfig, WhatIsWrittenIsReadAlike) {
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
    ModelShape x = shape_of(family);
    x.rope.theta = 1e6;
    x.rms_norm_eps = 1e-5;
    std::string text = write_hf_config({.shape = x, .dtype = "bfloat16"});
    EXPECT_NE(text.find("\"torch_dtype\": \"bfloat16\""), std::string::npos);
    EXPECT_NE(text.find(find_family(family)->architecture), std::string::npos);
    EXPECT_EQ(read_hf_config(text, "").value().shape, x) << text;
  }
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
            "model m: config.json: rope_scaling has a key of another type");
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
