// The one description of a model: its tensors by family, and config.json in both spellings.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/model/families.hpp"
#include "runtime/model/hf_config.hpp"
#include "runtime/model/hf_folder.hpp"
#include "runtime/model/lora.hpp"
#include "runtime/model/lora_file.hpp"
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
}

/// Layer 0 is dense, layers 1 and on have four routed experts, a shared one and its gate.
ModelShape with_experts() {
  ModelShape x = shape_of("qwen2");
  x.moe = MoeShape{.num_experts = 4,
                   .experts_per_token = 2,
                   .moe_intermediate_size = 8,
                   .shared_intermediate_size = 12,
                   .first_moe_layer = 1,
                   .shared_gate = true};
  return x;
}

TEST(Lora, RoutedExpertsAreModulesOfTheirOwn) {
  const ModelShape x = with_experts();
  const std::vector<std::string> all = {"down_proj", "gate_proj", "k_proj", "o_proj",
                                        "q_proj",    "up_proj",   "v_proj"};
  EXPECT_EQ(targets_of(x, {"all-linear"}), all);  // no router, and no gate of the shared expert
  EXPECT_EQ(resolve_lora(x, {4, 8, false, {".*"}, true}).value().targets, all);
  for (const char* bad : {"gate", "shared_expert_gate", "mlp.experts"})
    EXPECT_FALSE(resolve_lora(x, {4, 8, false, {bad}})) << bad;
  const LoraShape lora = resolve_lora(x, {4, 8, false, {"up_proj"}}).value();
  const std::vector<Tensor> tensors = lora_tensors_of(x, lora);
  ASSERT_EQ(tensors.size(), 6U);  // of layer 0, of routed experts, of the shared one
  const Tensor &a = tensors[2], &b = tensors[3];
  EXPECT_EQ(a.experts, 4);
  EXPECT_EQ(b.experts, 4);
  EXPECT_EQ(a.cut, Cut::whole);
  EXPECT_TRUE(a.may_repeat);  // whole on each card that has a part of W
  EXPECT_EQ(b.cut, Cut::rows);
  EXPECT_EQ(b.rows, 8);
  EXPECT_EQ(lora_modules_of(x, lora)[1].first_row, 8);  // behind the gate of one expert
  EXPECT_EQ(lora_tensor_name(b, 1, 3),
            "base_model.model.model.layers.1.mlp.experts.3.up_proj.lora_B.weight");
  EXPECT_EQ(lora_tensor_name(tensors[5], 1),
            "base_model.model.model.layers.1.mlp.shared_expert.up_proj.lora_B.weight");
}

TEST(Lora, ExpertsOfALayerHaveAdaptersAllOrNone) {
  const ModelShape x = with_experts();
  const auto refused = [&](const LoraShape& asked) {
    const auto found = resolve_lora(x, asked);
    return found ? "" : found.error().detail;
  };
  EXPECT_EQ(refused({4, 8, false, {"experts.0.up_proj"}}),
            "lora: the targets take model.layers.1.mlp.experts.0.up_proj and not "
            "model.layers.1.mlp.experts.1.up_proj: of the routed experts of a layer all have "
            "adapters, or none");
  EXPECT_NE(refused({4, 8, false, {R"(.*\.experts\.[12]\.down_proj)"}, true}), "");
  // A pattern is written out as each expert's name where a dense layer has the last part, too.
  const LoraShape lora =
      resolve_lora(x, {4, 8, false, {R"(.*\.1\.mlp\.experts\..*\.up_proj)"}, true}).value();
  EXPECT_EQ(lora.targets.size(), 4U);
  EXPECT_EQ(resolve_lora(x, lora).value(), lora);
  ASSERT_EQ(lora_tensors_of(x, lora).size(), 2U);
  EXPECT_TRUE(lora_tensors_of(x, lora)[0].is_in(1));
  EXPECT_EQ(lora_tensors_of(x, lora)[0].experts, 4);
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

constexpr size_t k_brackets = 400'000;  // they overflow the stack of what copies or prints them

std::string nested() { return std::string(k_brackets, '[') + std::string(k_brackets, ']'); }

std::string adapter_with(const std::string& more) {
  return R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, )" + more + "}";
}

/// A start that takes a part of the weights away: the folder alone is not what was trained.
TEST(Lora, AStartThatChangesTheWeightsIsRefused) {
  for (const char* start :
       {"true", "false", "null", R"("gaussian")", R"("Gaussian")", R"("eva")", R"("orthogonal")"})
    EXPECT_TRUE(
        parse_adapter_config(adapter_with(fmt::format(R"("init_lora_weights": {})", start)), "x")
            .has_value())
        << start;
  for (const char* start :
       {R"("pissa")", R"("pissa_niter_16")", R"("olora")", R"("OLoRA")", R"("corda")", R"("loftq")",
        R"("lora_ga")", R"("mica")", R"("none")", "3"}) {
    const auto read =
        parse_adapter_config(adapter_with(fmt::format(R"("init_lora_weights": {})", start)), "x");
    ASSERT_FALSE(read.has_value()) << start;
    EXPECT_NE(read.error().detail.find(fmt::format("x: init_lora_weights {}", start)),
              std::string::npos)
        << read.error().detail;
  }
}

TEST(Lora, NestedTextIsRefused) {
  for (const char* key : {"r", "target_modules", "bias", "base_model_name_or_path", "peft_type"}) {
    const std::string text = adapter_with(fmt::format(R"("{}": {})", key, nested()));
    EXPECT_NE(parse_adapter_config(text, "x").error().detail.find("x: is nested too deeply"),
              std::string::npos);
    EXPECT_EQ(adapter_base_of(text), "");
  }
}

/// Modules of two layers and a head.
std::vector<LinearModule> some_modules() {
  std::vector<LinearModule> modules;
  for (const char* layer : {"0", "1"})
    for (const char* name : {"self_attn.q_proj", "self_attn.v_proj", "mlp.up_proj"})
      modules.push_back({fmt::format("model.layers.{}.{}", layer, name)});
  modules.push_back({"lm_head", true});
  return modules;
}

/// "name rank alpha" of the modules that are hit, or the error.
std::vector<std::string> adapted(const std::string& more) {
  const AdapterFile file = parse_adapter_file(adapter_with(more), "x").value();
  const auto found = adapted_modules(file, some_modules(), "x");
  if (!found) return {found.error().detail};
  std::vector<std::string> lines;
  for (const auto& [name, shape] : *found)
    lines.push_back(fmt::format("{} {} {}", name, shape.rank, shape.alpha));
  return lines;
}

TEST(Lora, TargetsOfAFileAreModulesOfTheModel) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(adapted(R"("target_modules": ["up_proj", "query"])"),  // one of them is enough for PEFT
            (Lines{"model.layers.0.mlp.up_proj 4 8", "model.layers.1.mlp.up_proj 4 8"}));
  EXPECT_EQ(adapted(R"("target_modules": "all-linear")").size(), 6U);
  EXPECT_EQ(adapted(R"("target_modules": ["lm_head"])"), (Lines{"lm_head 4 8"}));
  EXPECT_EQ(adapted(R"("target_modules": null)").size(), 4U);  // q_proj and v_proj
  EXPECT_EQ(adapted(R"("target_modules": ".*1.*(q|up)_proj")"),
            (Lines{"model.layers.1.mlp.up_proj 4 8", "model.layers.1.self_attn.q_proj 4 8"}));
  for (const char* none : {R"(["foo"])", R"(["proj"])", R"("q_proj")", "[]"})
    EXPECT_NE(adapted(fmt::format(R"("target_modules": {})", none))
                  .front()
                  .find("x: target_modules: no linear layer"),
              std::string::npos)
        << none;
}

TEST(Lora, TheFirstKeyOfAPatternThatMatchesAnEndDecides) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(adapted(R"("target_modules": ["q_proj", "up_proj"],
      "rank_pattern": {"layers.1.self_attn.q_proj": 3, ".*q_proj": 2},
      "alpha_pattern": {"proj": 1, "mlp.up_proj": 0.5})"),
            (Lines{"model.layers.0.mlp.up_proj 4 0.5", "model.layers.0.self_attn.q_proj 2 8",
                   "model.layers.1.mlp.up_proj 4 0.5", "model.layers.1.self_attn.q_proj 3 8"}));
  for (const char* bad :
       {R"("rank_pattern": {"a": 0})", R"("rank_pattern": [2])", R"("alpha_pattern": {"a": "b"})"})
    EXPECT_FALSE(parse_adapter_file(adapter_with(bad), "x").has_value()) << bad;
  EXPECT_NE(parse_adapter_config(adapter_with(R"("alpha_pattern": {"a": 2})"), "x")
                .error()
                .detail.find("alpha_pattern is not built in"),
            std::string::npos);
}

TEST(ModelTensors, ACriticHasOneRowInPlaceOfTheHead) {
  ModelShape x = shape_of("llama");
  x.tie_word_embeddings = true;
  EXPECT_EQ(tensors_of(x).back().name, "model.norm.weight");
  EXPECT_EQ(tensors_of(x).front().where, Where::both_ends);
  EXPECT_EQ(tensors_of(x, HeadKind::value).back().name, "score.weight");
  EXPECT_EQ(tensors_of(x, HeadKind::value).front().where, Where::first_stage);
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

}  // namespace
}  // namespace cohort::model
