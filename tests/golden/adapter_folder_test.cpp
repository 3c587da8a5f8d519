// LORA-3: an adapter is merged only if its tensors are exactly those that its config asks for. Each
// bad folder is a good one (tests/data/lora, made by PEFT) with one thing changed.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/compute/model/language_model.hpp"
#include "runtime/compute/model/lora_folder.hpp"
#include "runtime/compute/train/bf16.hpp"
#include "runtime/model/hf_folder.hpp"
#include "tests/support/child_process.hpp"

namespace cohort::compute::adapter_folder_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::TempFolder;

const fs::path k_data = fs::path(std::getenv("COHORT_SOURCE_DIR")) / "tests/data";
const fs::path k_base = k_data / "language_models/qwen3", k_adapter = k_data / "lora/qwen3_some";
constexpr const char *k_config = "adapter_config.json", *k_weights = "adapter_model.safetensors";

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
template <class Change>
void with_config(const fs::path& folder, Change change) {
  json config = json::parse(std::ifstream(folder / k_config));
  change(config);
  write(folder / k_config, config.dump());
}

/// A tensor that holds what it has.
struct Matrix {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values = {};
};
std::vector<Matrix> matrices_of(const fs::path& folder) {
  const SafetensorsFile file = SafetensorsFile::open(folder / k_weights).value();
  std::vector<Matrix> out;
  for (const NamedTensor& x : file.tensors()) {
    out.push_back({x.name, x.shape});
    out.back().values.resize(static_cast<size_t>(x.shape[0] * x.shape[1]));
    copy_to_f32(x, out.back().values).value();
  }
  return out;
}

/// Of numbers that a half holds exactly: no rounding, no subnormals.
uint16_t to_half(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if (value == 0) return 0;
  return static_cast<uint16_t>((bits >> 16 & 0x8000U) | ((bits >> 23 & 255U) - 112) << 10 |
                               (bits >> 13 & 1023U));
}

void write_matrices(const fs::path& folder, const std::vector<Matrix>& matrices,
                    const std::string& dtype = "F32") {
  std::vector<std::vector<uint16_t>> halves(matrices.size());
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < matrices.size(); ++i) {
    const Matrix& x = matrices[i];
    for (float value : x.values)
      halves[i].push_back(dtype == "F16" ? to_half(value) : to_bf16(value));
    tensors.push_back({x.name, dtype, x.shape,
                       dtype == "F32" ? std::as_bytes(std::span(x.values))
                                      : std::as_bytes(std::span(halves[i]))});
  }
  write_safetensors(folder / "new", tensors, {}).value();
  fs::rename(folder / "new", folder / k_weights);
}
template <class Change>
void with_matrices(const fs::path& folder, Change change) {
  std::vector<Matrix> matrices = matrices_of(folder);
  change(matrices);
  write_matrices(folder, matrices);
}

struct BadAdapter {
  const char* name;
  void (*spoil)(const fs::path& folder);
  const char* file;
  const char* message;
};

const BadAdapter k_bad[] = {
    {"ALayerIsCutOff",
     [](const fs::path& f) {
       with_matrices(f, [](auto& all) {
         std::erase_if(all, [](const Matrix& x) { return x.name.find(".1.") != x.name.npos; });
       });
     },
     k_weights,
     "no tensor 'base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight', which "
     "target_modules"},
    {"NothingIsThere", [](const fs::path& f) { with_matrices(f, [](auto& all) { all.clear(); }); },
     k_weights, "no tensor 'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight'"},
    {"NoB",
     [](const fs::path& f) {
       with_matrices(f, [](auto& all) {
         std::erase_if(all, [](const Matrix& x) {
           return x.name.find("layers.1.mlp.up_proj.lora_B") != x.name.npos;
         });
       });
     },
     k_weights, "no tensor 'base_model.model.model.layers.1.mlp.up_proj.lora_B.weight'"},
    {"AModuleThatIsNoTarget",
     [](const fs::path& f) {
       with_config(f, [](json& c) { c["target_modules"] = {"q_proj", "up_proj"}; });
     },
     k_weights, "v_proj.lora_A.weight' is of a module that target_modules"},
    {"TargetsThatFitNothing",
     [](const fs::path& f) { with_config(f, [](json& c) { c["target_modules"] = {"foo"}; }); },
     k_config, "target_modules: no linear layer of the model is [foo]"},
    {"AnotherRank", [](const fs::path& f) { with_config(f, [](json& c) { c["r"] = 2; }); },
     k_weights, "has shape [3, 32]; rank 2"},
    {"AnotherName",
     [](const fs::path& f) {
       with_matrices(f, [](auto& all) { all.front().name = "model.layers.0.x.lora_A.weight"; });
     },
     k_weights, "is neither a lora_A nor a lora_B"},
    {"AStartThatChangesTheWeights",
     [](const fs::path& f) { with_config(f, [](json& c) { c["init_lora_weights"] = "pissa"; }); },
     k_config, "init_lora_weights \"pissa\""},
    {"NestedConfig",
     [](const fs::path& f) {
       write(f / k_config, R"({"peft_type": "LORA", "r": )" + std::string(400'000, '[') +
                               std::string(400'000, ']') + "}");
     },
     k_config, "is nested too deeply"},
};

class BadAdapters : public ::testing::TestWithParam<BadAdapter> {};

TEST_P(BadAdapters, AreRefusedByFileAndKey) {
  const TempFolder temp;
  const fs::path folder = temp.path() / "adapter";
  fs::copy(k_adapter, folder);
  GetParam().spoil(folder);
  const auto model = LanguageModel::open({.folder = k_base, .adapter = folder});
  ASSERT_FALSE(model);
  const std::string& detail = model.error().detail;
  EXPECT_NE(detail.find(GetParam().message), std::string::npos) << detail;
  EXPECT_NE(detail.find((folder / GetParam().file).string()), std::string::npos) << detail;
}

INSTANTIATE_TEST_SUITE_P(All, BadAdapters, ::testing::ValuesIn(k_bad),
                         [](const auto& param) { return std::string(param.param.name); });

std::vector<float> log_probs(const fs::path& adapter) {
  const auto model = LanguageModel::open({.folder = k_base, .adapter = adapter});
  if (!model) {
    ADD_FAILURE() << model.error().detail;
    return {};
  }
  const std::vector<int32_t> ids = {5, 9, 2, 30, 11, 7, 7, 19};
  return (*model)->score(ids, 1).value().log_probs;
}

/// A copy of the adapter without use_rslora, so that s = 6 / 3.
fs::path copy_of(const TempFolder& temp, const std::string& name) {
  const fs::path folder = temp.path() / name;
  fs::copy(k_adapter, folder);
  with_config(folder, [](json& c) { c["use_rslora"] = false; });
  return folder;
}

bool is_of(const Matrix& x, const std::string& half) { return x.name.ends_with(half + ".weight"); }

TEST(AdapterFolder, EveryDtypeGivesTheSameNumbers) {
  const TempFolder temp;
  std::vector<std::vector<float>> found;
  for (const char* dtype : {"F32", "BF16", "F16"}) {
    const fs::path folder = copy_of(temp, dtype);
    std::vector<Matrix> matrices = matrices_of(folder);
    for (Matrix& x : matrices)
      for (size_t i = 0; i < x.values.size(); ++i)
        x.values[i] = (static_cast<float>(i % 7) - 3) / 64;
    write_matrices(folder, matrices, dtype);
    found.push_back(log_probs(folder));
  }
  EXPECT_EQ(found[1], found[0]);
  EXPECT_EQ(found[2], found[0]);
  EXPECT_NE(found[0], log_probs({}));
}

TEST(AdapterFolder, AnAlphaOfAModuleIsItsScale) {
  const TempFolder temp;
  const fs::path doubled = copy_of(temp, "doubled"), pattern = copy_of(temp, "pattern");
  with_matrices(doubled, [](auto& all) {
    for (Matrix& x : all)
      if (is_of(x, "1.self_attn.q_proj.lora_B"))
        for (float& value : x.values) value *= 2;
  });
  with_config(pattern, [](json& c) { c["alpha_pattern"] = {{"layers.1.self_attn.q_proj", 12}}; });
  EXPECT_EQ(log_probs(pattern), log_probs(doubled));
  EXPECT_NE(log_probs(pattern), log_probs(copy_of(temp, "plain")));
}

TEST(AdapterFolder, ARankOfAModuleIsItsMatrices) {
  const TempFolder temp;
  const fs::path zeroed = copy_of(temp, "zeroed"), pattern = copy_of(temp, "pattern");
  with_matrices(zeroed, [](auto& all) {
    for (Matrix& x : all)
      if (is_of(x, "q_proj.lora_A"))
        for (size_t i = 0; i < x.values.size(); ++i)
          if (i >= 2 * static_cast<size_t>(x.shape[1])) x.values[i] = 0;
  });
  with_matrices(pattern, [](auto& all) {
    for (Matrix& x : all) {
      if (is_of(x, "q_proj.lora_A")) {
        x.shape[0] = 2;
        x.values.resize(2 * static_cast<size_t>(x.shape[1]));
      } else if (is_of(x, "q_proj.lora_B")) {
        std::vector<float> left;
        for (size_t i = 0; i < x.values.size(); ++i)
          if (i % 3 < 2) left.push_back(x.values[i]);
        x.shape[1] = 2;
        x.values = left;
      }
    }
  });
  with_config(pattern, [](json& c) {
    c["rank_pattern"] = {{"q_proj", 2}};
    c["alpha_pattern"] = {{"q_proj", 4}};  // the same s
  });
  const std::vector<float> expected = log_probs(zeroed), found = log_probs(pattern);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
}

/// transformers 5 has no linear layers in the experts: PEFT writes none of them, or all.
TEST(AdapterFolder, RoutedExpertsHaveMatricesAllOrNone) {
  const TempFolder temp;
  const ParameterLayout layout =
      layout_of({model::read_hf_folder(k_data / "language_models/qwen3_moe").value().shape});
  const auto opened = [&](const char* name, bool (*is_written)(const ParameterSpec& spec)) {
    const fs::path folder = copy_of(temp, name);
    with_config(folder, [](json& c) { c["target_modules"] = {"q_proj", "up_proj", "gate"}; });
    std::vector<Matrix> matrices;
    for (const ParameterSpec& spec : layout.specs) {
      if (!is_written(spec)) continue;
      const std::string stem =
          "base_model.model." + spec.name.substr(0, spec.name.size() - std::strlen(".weight"));
      for (const bool is_a : {true, false}) {
        Matrix x{stem + (is_a ? ".lora_A.weight" : ".lora_B.weight"), {3, spec.shape[1]}};
        if (!is_a) x.shape = {spec.shape[0], 3};
        x.values.resize(static_cast<size_t>(x.shape[0] * x.shape[1]));
        matrices.push_back(x);
      }
    }
    write_matrices(folder, matrices);
    const auto found = LoraFolder::open(folder, layout);
    return found ? "" : found.error().detail;
  };
  static const auto is_in = [](const ParameterSpec& spec, const char* name) {
    return spec.name.ends_with(std::string(name) + ".weight");
  };
  EXPECT_EQ(opened("none",
                   [](const ParameterSpec& s) {
                     return is_in(s, ".q_proj") || (is_in(s, ".up_proj") && s.expert < 0);
                   }),
            "");
  EXPECT_EQ(opened("all",
                   [](const ParameterSpec& s) {
                     return is_in(s, ".q_proj") || is_in(s, ".up_proj") || is_in(s, ".gate");
                   }),
            "");
  EXPECT_NE(opened("some",
                   [](const ParameterSpec& s) {
                     return is_in(s, ".q_proj") || (is_in(s, ".up_proj") && s.expert != 1);
                   })
                .find("experts.1.up_proj.lora_A.weight', which target_modules"),
            std::string::npos);
}

}  // namespace
}  // namespace cohort::compute::adapter_folder_test
