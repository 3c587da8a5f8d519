// Tiny models of each family (tests/data/language_models, made by transformers) give the numbers
// that were written beside them: log-probabilities, entropies, greedy tokens, gradients.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/compute/model/language_model.hpp"
#include "runtime/compute/model/policy_graph.hpp"
#include "runtime/compute/train/weight_folder.hpp"
#include "tests/support/child_process.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Ids = std::vector<int32_t>;

const fs::path k_models = fs::path(std::getenv("COHORT_SOURCE_DIR")) / "tests/data/language_models";

json golden_of(const std::string& name) {
  return json::parse(std::ifstream(k_models / name / "golden.json"));
}

void expect_close(const std::vector<float>& found, const json& expected, const std::string& where) {
  ASSERT_EQ(found.size(), expected.size()) << where;
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i].get<double>(), 5e-5) << where << " " << i;
}

void expect_numbers(const LanguageModel& model, const json& golden, const std::string& name) {
  for (size_t i = 0; i < golden["ids"].size(); ++i) {
    const auto scores = model.score(golden["ids"][i].get<Ids>(), 1.0);
    ASSERT_TRUE(scores) << name << ": " << scores.error().detail;
    expect_close(scores->log_probs, golden["log_probs"][i], name);
    expect_close(scores->entropy, golden["entropy"][i], name);
  }
  Ids prompt = golden["ids"][0].get<Ids>();
  prompt.resize(5);
  EXPECT_EQ(model.greedy(prompt, 12).value(), golden["greedy"].get<Ids>()) << name;
}

class Families : public ::testing::TestWithParam<const char*> {};

TEST_P(Families, LogProbsEntropiesAndGreedyTokens) {
  auto model = LanguageModel::open({.folder = k_models / GetParam()});
  ASSERT_TRUE(model) << model.error().detail;
  expect_numbers(**model, golden_of(GetParam()), GetParam());
}

/// One micro-batch of the golden sequences, every token but the first asked for.
TEST_P(Families, GradientsOfTheMeanLoss) {
  const json golden = golden_of(GetParam());
  std::ifstream file(k_models / GetParam() / "config.json");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const ModelConfig config{model::read_hf_config(text, GetParam()).value().shape};
  const ParameterLayout layout = layout_of(config);
  const WeightFolder weights = WeightFolder::open(k_models / GetParam()).value();
  at::Tensor flat = at::zeros({layout.total_elements}, at::dtype(at::kFloat));
  for (const ParameterSpec& spec : layout.specs)
    weights.read(spec.name, 0,
                 {flat.data_ptr<float>() + spec.offset, static_cast<size_t>(spec.count)});
  std::vector<Ids> ids;
  std::vector<std::vector<uint8_t>> masks;
  for (const json& row : golden["ids"]) {
    ids.push_back(row.get<Ids>());
    masks.emplace_back(row.size(), 1).front() = 0;
  }
  std::vector<TrainSample> samples;
  for (size_t i = 0; i < ids.size(); ++i) samples.push_back({ids[i], masks[i], {}, {}, {}});
  const PackedBatch batch = pack(samples, input_rows(samples), {0, samples.size()});
  const ops::RopeTable rope = ops::rope_table(64, config.rotary_dim(), config.rope);
  const PolicyWeights graph = view_weights(flat, layout, true);
  const at::Tensor loss = -policy_log_probs(graph, config, rope, batch, 1 << 20).logp.mean();
  EXPECT_NEAR(loss.item<double>(), golden["loss"].get<double>(), 1e-5);
  std::vector<at::Tensor> leaves;
  for (const auto& leaf : graph.leaves) leaves.push_back(leaf.tensor);
  const auto gradients = torch::autograd::grad({loss}, leaves, {}, c10::nullopt, false, true);
  at::Tensor all = at::zeros_like(flat);
  for (size_t i = 0; i < leaves.size(); ++i)
    if (gradients[i].defined())
      all.narrow(0, graph.leaves[i].offset, leaves[i].numel()).copy_(gradients[i].reshape({-1}));
  for (const ParameterSpec& spec : layout.specs) {
    const double norm = all.narrow(0, spec.offset, spec.count).norm().item<double>();
    const double expected = golden["gradient_norms"].value(spec.name, 0.0);
    EXPECT_NEAR(norm, expected, 1e-4 * (0.01 + expected)) << spec.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Families,
                         ::testing::Values("qwen2", "qwen2_plain", "qwen3", "llama", "llama2",
                                           "llama_linear", "mistral", "qwen3_moe",
                                           "qwen3_moe_mixed", "qwen2_moe", "deepseek_v2",
                                           "deepseek_v3"),
                         [](const auto& param) { return std::string(param.param); });

TEST(LanguageModel, ALoraAdapterIsMerged) {
  auto model =
      LanguageModel::open({.folder = k_models / "qwen3", .adapter = k_models / "qwen3_lora"});
  ASSERT_TRUE(model) << model.error().detail;
  expect_numbers(**model, golden_of("qwen3_lora"), "qwen3_lora");
}

TEST(LanguageModel, AScoreIsThatOfTheLastTokenThatIsNoPadding) {
  auto model = LanguageModel::open({.folder = k_models / "qwen2_score"});
  ASSERT_TRUE(model) << model.error().detail;
  const json golden = golden_of("qwen2_score");
  for (size_t i = 0; i < golden["ids"].size(); ++i) {
    const Ids ids = golden["ids"][i].get<Ids>();
    const auto scores = (*model)->head_scores(ids).value();
    EXPECT_NEAR(scores.pooled.front(), golden["scores"][i].get<double>(), 5e-5);
    EXPECT_EQ(scores.values.size(), ids.size());
  }
  EXPECT_FALSE((*model)->score(golden["ids"][0].get<Ids>(), 1));
}

// ---- bad folders: each case changes one thing of a good folder ------------------------------

struct BadFolder {
  const char* name;
  void (*spoil)(const fs::path& folder);
  const char* message;
};

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
json config_of(const fs::path& folder) {
  return json::parse(std::ifstream(folder / "config.json"));
}
template <class Change>
void with_config(const fs::path& folder, Change change) {
  json config = config_of(folder);
  change(config);
  write(folder / "config.json", config.dump());
}
/// Writes the tensors again, changed.
template <class Change>
void with_tensors(const fs::path& folder, Change change) {
  const SafetensorsFile file = SafetensorsFile::open(folder / "model.safetensors").value();
  std::vector<NamedTensor> tensors = file.tensors();
  change(tensors);
  write_safetensors(folder / "new", tensors, {}).value();
  fs::rename(folder / "new", folder / "model.safetensors");
}
/// Two shards and an index in place of the one file.
json shard(const fs::path& folder) {
  const SafetensorsFile file = SafetensorsFile::open(folder / "model.safetensors").value();
  const std::span<const NamedTensor> all = file.tensors();
  const size_t half = all.size() / 2;
  write_safetensors(folder / "a.safetensors", all.first(half), {}).value();
  write_safetensors(folder / "b.safetensors", all.subspan(half), {}).value();
  json index;
  for (size_t i = 0; i < all.size(); ++i)
    index["weight_map"][all[i].name] = i < half ? "a.safetensors" : "b.safetensors";
  fs::remove(folder / "model.safetensors");
  write(folder / "model.safetensors.index.json", index.dump());
  return index;
}
NamedTensor& named(std::vector<NamedTensor>& tensors, const std::string& name) {
  return *std::ranges::find(tensors, name, &NamedTensor::name);
}

const BadFolder k_bad[] = {
    {"NoConfig", [](const fs::path& f) { fs::remove(f / "config.json"); },
     "config.json: No such file"},
    {"ConfigIsNoJson", [](const fs::path& f) { write(f / "config.json", "{"); },
     "is not a JSON object"},
    {"NoModelType",
     [](const fs::path& f) { with_config(f, [](json& c) { c.erase("model_type"); }); },
     "model_type '' is not one of"},
    {"AnotherFamily",
     [](const fs::path& f) { with_config(f, [](json& c) { c["model_type"] = "gpt2"; }); },
     "model_type 'gpt2' is not one of"},
    {"NoRopeTheta",
     [](const fs::path& f) { with_config(f, [](json& c) { c.erase("rope_theta"); }); },
     "config.json must say rope_theta"},
    {"UnknownKey", [](const fs::path& f) { with_config(f, [](json& c) { c["logit_scale"] = 2; }); },
     "'logit_scale'"},
    {"Activation",
     [](const fs::path& f) { with_config(f, [](json& c) { c["hidden_act"] = "gelu"; }); },
     "hidden_act"},
    {"RopeType",
     [](const fs::path& f) {
       with_config(f, [](json& c) { c["rope_scaling"] = {{"rope_type", "longrope"}}; });
     },
     "'longrope' is not one of"},
    {"RopeFactor",
     [](const fs::path& f) {
       with_config(f, [](json& c) {
         c["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 0}};
       });
     },
     "factor must be positive"},
    {"HeadsDoNotDivide",
     [](const fs::path& f) { with_config(f, [](json& c) { c["num_key_value_heads"] = 3; }); },
     "num_key_value_heads 3"},
    {"HiddenSize",
     [](const fs::path& f) { with_config(f, [](json& c) { c["hidden_size"] = 48; }); },
     "has shape [48, 32], the model needs [48, 48]"},
    {"MoreLayers",
     [](const fs::path& f) {
       with_config(f, [](json& c) {
         c["num_hidden_layers"] = 3;
         c.erase("layer_types");
       });
     },
     "no tensor 'model.layers.2."},
    {"Vocabulary", [](const fs::path& f) { with_config(f, [](json& c) { c["vocab_size"] = 50; }); },
     "'model.embed_tokens.weight' has shape [48, 32]"},
    {"ConfigOfAnotherFamily",
     [](const fs::path& f) { with_config(f, [](json& c) { c["model_type"] = "llama"; }); },
     "is of no parameter that config.json's model_type 'llama' has"},
    {"NoWeights", [](const fs::path& f) { fs::remove(f / "model.safetensors"); },
     "neither model.safetensors nor"},
    {"Pickle",
     [](const fs::path& f) { fs::rename(f / "model.safetensors", f / "pytorch_model.bin"); },
     "is a pickle"},
    {"Truncated", [](const fs::path& f) { fs::resize_file(f / "model.safetensors", 20000); },
     "outside the"},
    {"TruncatedHeader", [](const fs::path& f) { fs::resize_file(f / "model.safetensors", 100); },
     "does not fit a file of 100"},
    {"EmptyFile", [](const fs::path& f) { fs::resize_file(f / "model.safetensors", 0); },
     "too short for a header"},
    {"HugeHeader",
     [](const fs::path& f) {
       write(f / "model.safetensors", std::string(7, '\xff') + "\x7f" + std::string(64, ' '));
     },
     "does not fit a file of 72"},
    {"HeaderIsNoJson",
     [](const fs::path& f) {
       write(f / "model.safetensors", std::string("\x10\0\0\0\0\0\0\0", 8) + std::string(16, 'x'));
     },
     "header is not a JSON object"},
    {"MissingTensor", [](const fs::path& f) { with_tensors(f, [](auto& t) { t.pop_back(); }); },
     "no tensor '"},
    {"NoHead",
     [](const fs::path& f) {
       with_tensors(
           f, [](auto& t) { t.erase(std::ranges::find(t, "lm_head.weight", &NamedTensor::name)); });
     },
     "does config.json leave out tie_word_embeddings"},
    {"SpareTensor",
     [](const fs::path& f) {
       with_tensors(f, [](auto& t) {
         t.push_back(t.back());
         t.back().name = "model.layers.0.self_attn.q_proj.bias";
       });
     },
     "'model.layers.0.self_attn.q_proj.bias' is of no parameter"},
    {"WrongDtype",
     [](const fs::path& f) {
       with_tensors(f, [](auto& t) { named(t, "model.norm.weight").dtype = "I16"; });
     },
     "'model.norm.weight' is I16, not F32"},
    {"ScalesMissing",
     [](const fs::path& f) {
       with_tensors(f, [](auto& t) {
         NamedTensor& x = named(t, "model.norm.weight");
         x.dtype = "F8_E4M3";
         x.bytes = x.bytes.first(32);
       });
     },
     "needs F32 scales"},
    {"ShardMissing",
     [](const fs::path& f) {
       shard(f);
       fs::remove(f / "b.safetensors");
     },
     "b.safetensors: is missing"},
    {"ShardTruncated",
     [](const fs::path& f) {
       shard(f);
       fs::resize_file(f / "b.safetensors", 5000);
     },
     "b.safetensors"},
    {"IndexLies",
     [](const fs::path& f) {
       json index = shard(f);
       index["weight_map"]["model.norm.weight"] =
           index["weight_map"]["model.norm.weight"] == "a.safetensors" ? "b.safetensors"
                                                                       : "a.safetensors";
       write(f / "model.safetensors.index.json", index.dump());
     },
     "has no tensor 'model.norm.weight', which"},
    {"IndexIsNoJson",
     [](const fs::path& f) {
       shard(f);
       write(f / "model.safetensors.index.json", "[]");
     },
     "model.safetensors.index.json: is not a JSON object"},
    {"IndexHasNoMap",
     [](const fs::path& f) {
       shard(f);
       write(f / "model.safetensors.index.json", R"({"weight_map": {}})");
     },
     "has no object 'weight_map'"},
    {"IndexIsNested",
     [](const fs::path& f) {
       shard(f);
       write(f / "model.safetensors.index.json", R"({"weight_map": {"a": )" +
                                                     std::string(400'000, '[') +
                                                     std::string(400'000, ']') + "}}");
     },
     "is nested too deeply"},
    {"IndexLeavesTheFolder",
     [](const fs::path& f) {
       json index = shard(f);
       index["weight_map"]["model.norm.weight"] = "../x.safetensors";
       write(f / "model.safetensors.index.json", index.dump());
     },
     "is not the name of a file of the folder"},
    {"IndexWithoutATensor",
     [](const fs::path& f) {
       json index = shard(f);
       index["weight_map"].erase("model.norm.weight");
       write(f / "model.safetensors.index.json", index.dump());
     },
     "no tensor 'model.norm.weight'"},
};

class BadFolders : public ::testing::TestWithParam<BadFolder> {};

TEST_P(BadFolders, AreRefusedByFileAndKey) {
  test::TempFolder temp;
  const fs::path folder = fs::path(temp.path()) / "model";
  fs::copy(k_models / "qwen3", folder);
  GetParam().spoil(folder);
  auto model = LanguageModel::open({.folder = folder});
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().detail.find(GetParam().message), std::string::npos)
      << model.error().detail;
  EXPECT_NE(model.error().detail.find(folder.string()), std::string::npos) << model.error().detail;
}

INSTANTIATE_TEST_SUITE_P(All, BadFolders, ::testing::ValuesIn(k_bad),
                         [](const auto& param) { return std::string(param.param.name); });

/// NaN in the weights is said, and no row gets null.
TEST(LanguageModel, NumbersThatAreNoneAreErrors) {
  const std::array<std::pair<const char*, const char*>, 2> cases = {
      {{"qwen3", "model.norm.weight"}, {"qwen2_score", "score.weight"}}};
  for (const auto& [name, tensor] : cases) {
    test::TempFolder temp;
    const fs::path folder = fs::path(temp.path()) / "model";
    fs::copy(k_models / name, folder);
    std::vector<std::byte> bytes;
    with_tensors(folder, [&](auto& tensors) {
      NamedTensor& x = named(tensors, tensor);
      bytes.assign(x.bytes.size(), std::byte{0xff});  // NaN in any dtype
      x.bytes = bytes;
    });
    const auto model = LanguageModel::open({.folder = folder});
    ASSERT_TRUE(model) << model.error().detail;
    const Ids ids = {1, 2, 3};
    std::vector<Error> errors;
    if (name == std::string("qwen3")) {
      errors.push_back((*model)->score(ids, 1).error());
      errors.push_back((*model)->greedy(ids, 1).error());
    } else {
      errors.push_back((*model)->head_scores(ids).error());
    }
    for (const Error& error : errors) {
      EXPECT_EQ(error.code, Errc::compute);
      EXPECT_NE(error.detail.find("is NaN"), std::string::npos) << error.detail;
    }
  }
}

TEST(WeightFolder, ShardsGiveTheSameNumbers) {
  test::TempFolder temp;
  const fs::path folder = fs::path(temp.path()) / "model";
  fs::copy(k_models / "qwen3", folder);
  shard(folder);
  auto model = LanguageModel::open({.folder = folder});
  ASSERT_TRUE(model) << model.error().detail;
  expect_numbers(**model, golden_of("qwen3"), "sharded");
}

TEST(WeightFolder, HalvesAndEighths) {
  test::TempFolder temp;
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x0400, 0x8000};
  const uint8_t eighths[] = {0x38, 0xb8, 0x01, 0x7e, 0x08, 0x00};
  const float scales[] = {2};
  write_safetensors(
      temp.path() / "model.safetensors",
      std::vector<NamedTensor>{{"h", "F16", {6}, std::as_bytes(std::span(halves))},
                               {"e", "F8_E4M3", {1, 6}, std::as_bytes(std::span(eighths))},
                               {"e_scale_inv", "F32", {1, 1}, std::as_bytes(std::span(scales))}},
      {})
      .value();
  const WeightFolder folder = WeightFolder::open(temp.path()).value();
  std::vector<float> found(6);
  folder.read("h", 0, found);
  EXPECT_EQ(found, (std::vector<float>{1, -2, 0x1p-24F, 65504, 0x1p-14F, -0.0F}));
  folder.read("e", 0, found);
  EXPECT_EQ(found, (std::vector<float>{2, -2, 0x1p-8F, 896, 0x1p-5F, 0}));
  const auto bytes_of = [](auto& values) { return std::as_writable_bytes(std::span(values)); };
  std::vector<uint16_t> rounded(3);
  folder.read_as(tensor::Dtype::bf16, "h", 1, bytes_of(rounded));
  EXPECT_EQ(rounded, (std::vector<uint16_t>{0xc000, 0x3380, 0x4780}));  // 65504 becomes 65536
  std::vector<float> wide(2);
  folder.read_as(tensor::Dtype::f32, "e", 1, bytes_of(wide));
  EXPECT_EQ(wide, (std::vector<float>{-2, 0x1p-8F}));
}

}  // namespace
}  // namespace cohort::compute
