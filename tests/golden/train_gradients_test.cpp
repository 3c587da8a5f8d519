// The training engine's loss and the norm of each gradient are those that transformers computes for
// the tiny models of tests/data/language_models: alone, in several micro-batches, by unit, over
// ranks, with experts cut. A gradient is read from the checkpoint behind a step: with beta1 = 0 the
// first moment is the gradient.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/compute/train/checkpoint_slices.hpp"
#include "runtime/model/hf_config.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/train_fixture.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using tests::TrainRig;

/// COHORT_LANGUAGE_MODELS: another folder of models with golden.json beside them.
fs::path models_folder() {
  const char* other = std::getenv("COHORT_LANGUAGE_MODELS");
  return other != nullptr
             ? fs::path(other)
             : fs::path(std::getenv("COHORT_SOURCE_DIR")) / "tests/data/language_models";
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A model's folder, its configuration and the sequences of its golden numbers.
struct Golden {
  explicit Golden(const std::string& name) : folder(models_folder() / name) {
    numbers = json::parse(text_of(folder / "golden.json"));
    file = model::read_hf_config(text_of(folder / "config.json"), name).value();
    for (const json& row : numbers["ids"]) {
      ids.push_back(row.get<std::vector<int32_t>>());
      masks.emplace_back(row.size(), 1).front() = 0;
    }
    for (size_t i = 0; numbers.contains("masks") && i < masks.size(); ++i)
      masks[i] = numbers["masks"][i].get<std::vector<uint8_t>>();
    for (size_t i = 0; i < ids.size(); ++i) samples.push_back({ids[i], masks[i], {}, {}, {}});
  }
  bool has_value_head() const { return file.head != model::HfConfig::Head::language; }

  fs::path folder;
  json numbers;
  model::HfConfig file;
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<uint8_t>> masks;
  std::vector<TrainSample> samples;
};

LossFunction mean_square(const StepCounts& counts) {
  return [tokens = counts.tokens](const MicroBatch&, const MicroOutputs& out) {
    MicroLoss loss;
    loss.total = out.logp.square().sum() / tokens;
    return loss;
  };
}

struct Split {
  const char* name;
  int ranks = 1, stage = 0;
  int64_t micro_batch_tokens = 1;  // each sequence alone
  int expert_ways = 1;
};

struct Outcome {
  double loss = 0;
  uint64_t hash = 0;
};

TrainEngineOptions options_of(const Golden& golden, const Split& split, Collectives* group) {
  TrainEngineOptions options;
  options.model = {golden.file.shape, tensor::Dtype::f32};
  options.model.max_position = 128;
  options.head = golden.has_value_head() ? model::HeadKind::value : model::HeadKind::language;
  options.draws_weights = false;
  options.micro_batch_tokens = split.micro_batch_tokens;
  options.optimizer = {.beta1 = 0, .max_grad_norm = 0};
  options.zero.group = group;
  options.zero.stage = split.stage;
  options.zero.expert_ways = split.expert_ways;
  return options;
}

/// Takes a step on every rank and saves a checkpoint. Returns what rank 0 saw.
Outcome step(const Golden& golden, const Split& split, const fs::path& checkpoint) {
  Outcome out;
  auto rendezvous = Rendezvous::in_process();
  tests::on_threads(split.ranks, [&](int rank) {
    std::unique_ptr<Collectives> group;
    if (split.ranks > 1)
      group = Collectives::join(tests::group_options(rank, split.ranks, "g", rendezvous)).value();
    TrainRig rig(options_of(golden, split, group.get()));
    rig.engine->load_model(golden.folder).value();
    rig.onload_all();
    const LossFactory loss = golden.has_value_head() ? mean_square : tests::cross_entropy;
    const StepReport report = rig.engine->step(golden.samples, loss, 1e-3).value();
    rig.engine->save(checkpoint).value();
    const uint64_t hash = rig.engine->param_hash();
    if (rank == 0) out = {report.loss, hash};
  });
  return out;
}

/// The norm of each tensor's first moment in a checkpoint of any number of ranks.
std::map<std::string, double> moment_norms(const fs::path& checkpoint,
                                           const ParameterLayout& layout) {
  SliceTable table;
  for (const auto& entry : fs::directory_iterator(checkpoint))
    if (entry.path().filename().string().starts_with("optimizer"))
      table.add(SafetensorsFile::open(entry.path()).value(), entry.path()).value();
  std::map<std::string, double> norms;
  for (const ParameterSpec& spec : layout.specs) {
    std::vector<float> values(static_cast<size_t>(spec.count));
    table.check("exp_avg." + spec.name, spec.count, {0, spec.count}).value();
    table.copy("exp_avg." + spec.name, {0, spec.count}, values);
    double sum = 0;
    for (const float x : values) sum += static_cast<double>(x) * static_cast<double>(x);
    norms[spec.name] = std::sqrt(sum);
  }
  return norms;
}

void expect_golden(const Golden& golden, const Outcome& found, const fs::path& checkpoint,
                   const std::string& where) {
  EXPECT_NEAR(found.loss, golden.numbers["loss"].get<double>(), 1e-5) << where;
  const Split alone{"alone"};
  const TrainEngineOptions options = options_of(golden, alone, nullptr);
  const auto norms = moment_norms(checkpoint, layout_of(options.model, options.head));
  const json& expected = golden.numbers["gradient_norms"];
  for (const auto& [name, norm] : norms) {
    const double of_golden = expected.value(name, 0.0);
    EXPECT_NEAR(norm, of_golden, 1e-4 * of_golden + 1e-7) << where << ": " << name;
  }
  for (const auto& [name, norm] : expected.items())
    EXPECT_TRUE(norms.contains(name)) << where << ": " << name;
}

class TrainGradients : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              fmt::format("cohort_train_gradients_{}_{}", GetParam(), ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  Outcome check(const Golden& golden, const Split& split) {
    const Outcome found = step(golden, split, folder_ / split.name);
    expect_golden(golden, found, folder_ / split.name, split.name);
    return found;
  }
  fs::path folder_;
};

TEST_P(TrainGradients, AreTransformersInOneMicroBatch) {
  const Golden golden(GetParam());
  check(golden, {"whole", 1, 0, 1 << 20});
  check(golden, {"whole_by_unit", 1, 3, 1 << 20});
}

TEST_P(TrainGradients, AreTransformersInSeveralAndTheSameBitsForAnyCut) {  // TRAIN-3
  const Golden golden(GetParam());
  const Outcome expected = check(golden, {"alone"});
  std::vector<Split> splits = {{"by_unit", 1, 3}, {"zero_1", 2, 1}, {"zero_3", 2, 3}};
  if (golden.file.shape.moe) {
    splits.push_back({"experts_2", 2, 0, 1, 2});
    splits.push_back({"experts_2_of_4", 4, 2, 1, 2});
  }
  for (const Split& split : splits)
    EXPECT_EQ(check(golden, split).hash, expected.hash) << split.name;
}

INSTANTIATE_TEST_SUITE_P(Families, TrainGradients,
                         ::testing::Values("qwen2", "qwen2_plain", "qwen3", "llama", "llama2",
                                           "llama_linear", "mistral", "qwen3_moe",
                                           "qwen3_moe_mixed", "qwen2_moe", "deepseek_v2",
                                           "deepseek_v3", "qwen2_score"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace cohort::compute
