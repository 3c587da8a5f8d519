// The generation engine on a paged cache gives the greedy tokens that transformers gives: of each
// model of tests/data/language_models (greedy.json, made by tools/golden/make_greedy_tokens.py),
// for several chunk sizes of the prompt, on one card and cut over two.
// COHORT_LANGUAGE_MODELS names another folder of such models.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/compute/train/bf16.hpp"
#include "runtime/compute/train/weight_folder.hpp"
#include "runtime/model/hf_folder.hpp"
#include "tests/support/tp_rig.hpp"

namespace cohort::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Ids = std::vector<int32_t>;

fs::path models_root() {
  if (const char* other = std::getenv("COHORT_LANGUAGE_MODELS")) return other;
  return fs::path(std::getenv("COHORT_SOURCE_DIR")) / "tests/data/language_models";
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(models_root()))
    if (fs::exists(entry.path() / "greedy.json")) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

struct Model {
  compute::ModelConfig config;
  std::vector<float> weights;  // flat
  json golden;
};

Model open_model(const std::string& name) {
  const fs::path folder = models_root() / name;
  Model model{{model::read_hf_folder(folder).value().shape}, {}, {}};
  const compute::ParameterLayout layout = compute::layout_of(model.config);
  model.weights.assign(static_cast<size_t>(layout.total_elements), 0.F);
  const auto files = compute::WeightFolder::open(folder).value();
  for (const compute::ParameterSpec& spec : layout.specs)
    files.read(spec.name, 0, {model.weights.data() + spec.offset, static_cast<size_t>(spec.count)});
  model.golden = json::parse(std::ifstream(folder / "greedy.json"));
  return model;
}

compute::TurnRequest greedy_turn(uint64_t id, const json& row) {
  compute::TurnRequest request;
  request.request_id = id;
  request.append_tokens = row["prompt"].get<Ids>();
  request.max_new_tokens = static_cast<int>(row["greedy"].size());
  request.sampling.greedy = true;
  return request;
}

/// All prompts at once, so that they share batches.
std::vector<compute::TurnOutput> play(GenerationRig& rig, const json& golden) {
  for (size_t i = 0; i < golden.size(); ++i)
    rig.engine->submit(greedy_turn(i + 1, golden[i])).value();
  std::vector<compute::TurnOutput> outputs;
  for (size_t i = 0; i < golden.size(); ++i) outputs.push_back(rig.wait(i + 1, 0));
  return outputs;
}

void expect_golden(GenerationRig& rig, const Model& model, const std::string& what) {
  const auto found = play(rig, model.golden);
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i].tokens, model.golden[i]["greedy"].get<Ids>()) << what << ", prompt " << i;
}

class EngineGreedy : public ::testing::TestWithParam<std::string> {};

TEST_P(EngineGreedy, OneCardInChunksOfAnySize) {
  const Model model = open_model(GetParam());
  for (int64_t batch_tokens : {256, 16, 7, 1}) {
    RigOptions options;
    options.model = model.config;
    options.batch_tokens = batch_tokens;
    GenerationRig rig(options);
    rig.serve(model.weights);
    expect_golden(rig, model, fmt::format("{} rows of a batch", batch_tokens));
  }
}

TEST_P(EngineGreedy, TwoCards) {
  const Model model = open_model(GetParam());
  RigOptions options;
  options.model = model.config;
  options.batch_tokens = 16;
  TpRig rig(2, options);
  rig.serve(model.weights);
  expect_golden(rig.leader(), model, "two cards");
}

/// The log-probs of greedy paths in bf16, each up to where another token is the best. Of models
/// drawn at random a few tokens come near a tie, or to another expert: the median is bounded.
TEST_P(EngineGreedy, Bf16IsClose) {
  const Model model = open_model(GetParam());
  RigOptions options;
  options.model = model.config;
  GenerationRig exact(options);
  exact.serve(model.weights);
  options.model.dtype = tensor::Dtype::bf16;
  GenerationRig rig(options);
  rig.engine->onload_params().value();
  const auto arrival = rig.engine->begin_weights(1).value();
  for (size_t i = 0; i < model.weights.size(); ++i) {
    const uint16_t half = compute::to_bf16(model.weights[i]);
    std::memcpy(arrival.bytes.data() + i * sizeof half, &half, sizeof half);
  }
  rig.engine->commit_weights(1).value();
  rig.engine->init_cache(rig.cache_bytes).value();
  rig.start();
  const auto expected = play(exact, model.golden), found = play(rig, model.golden);
  std::vector<float> differences;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].tokens.size(), expected[i].tokens.size());
    for (size_t t = 0; t < found[i].tokens.size(); ++t) {
      if (found[i].tokens[t] != expected[i].tokens[t]) break;
      differences.push_back(std::abs(found[i].logp[t] - expected[i].logp[t]));
    }
  }
  ASSERT_GE(differences.size(), 4U);
  std::ranges::sort(differences);
  std::printf("[ bf16 ] %zu tokens on common paths, median difference %.4f, largest %.4f\n",
              differences.size(), static_cast<double>(differences[differences.size() / 2]),
              static_cast<double>(differences.back()));
  EXPECT_LT(differences[differences.size() / 2], 0.06F);
}

INSTANTIATE_TEST_SUITE_P(Models, EngineGreedy, ::testing::ValuesIn(model_names()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace cohort::tests
