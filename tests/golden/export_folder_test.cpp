// EXPORT-1, EXPORT-2: what is exported computes what the source computes, to the bit, for each
// family (tests/data/language_models), whatever the files are cut to.
#include "runtime/compute/train/export_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/compute/model/language_model.hpp"
#include "runtime/compute/model/lora_base.hpp"
#include "runtime/compute/model/lora_folder.hpp"
#include "runtime/compute/train/safetensors.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/train_fixture.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::TempFolder;
using Ids = std::vector<int32_t>;

const fs::path k_models = fs::path(std::getenv("COHORT_SOURCE_DIR")) / "tests/data/language_models";

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
json json_of(const fs::path& path) { return json::parse(std::ifstream(path)); }

/// The bits of every number that the folder computes for the golden rows.
std::vector<std::vector<float>> numbers_of(const fs::path& folder, const std::string& family) {
  auto model = LanguageModel::open({.folder = folder});
  if (!model) ADD_FAILURE() << model.error().detail;
  std::vector<std::vector<float>> out;
  const json golden = json_of(k_models / family / "golden.json");
  for (size_t i = 0; model && i < golden["ids"].size(); ++i) {
    LanguageModel::Scores scores = (*model)->score(golden["ids"][i].get<Ids>(), 1).value();
    out.push_back(std::move(scores.log_probs));
    out.push_back(std::move(scores.entropy));
  }
  return out;
}

std::map<std::string, std::vector<std::byte>> tensors_of(const fs::path& folder) {
  std::map<std::string, std::vector<std::byte>> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const SafetensorsFile file = SafetensorsFile::open(entry.path()).value();
    EXPECT_EQ(file.metadata().at("format"), "pt");
    for (const NamedTensor& x : file.tensors()) {
      auto& bytes = out[x.name + " " + x.dtype + " " + json(x.shape).dump()];
      EXPECT_TRUE(bytes.empty()) << x.name << " is in two files";
      bytes.assign(x.bytes.begin(), x.bytes.end());
    }
  }
  return out;
}

ExportReport exported(const ExportOptions& options) {
  auto report = export_folder(options);
  if (!report) ADD_FAILURE() << report.error().detail;
  return report ? *report : ExportReport{};
}

/// What a user's folder has besides the weights.
void add_text_files(const fs::path& folder) {
  write(folder / "tokenizer.json", "{\"version\": \"1.0\"}\n");
  write(folder / "generation_config.json", "{\"eos_token_id\": [7, 9]}\n");
  fs::create_directory(folder / "additional_chat_templates");
  write(folder / "additional_chat_templates/tool_use.jinja", "{{ tools }}");
}

ModelConfig config_of(const fs::path& folder, tensor::Dtype dtype = tensor::Dtype::f32) {
  std::ifstream file(folder / "config.json");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return {model::read_hf_config(text, "model").value().shape, dtype};
}

/// A checkpoint as a run of `model` leaves it that started from `folder` and took no step.
void checkpoint(const fs::path& folder, const ModelConfig& model, const fs::path& to,
                Collectives* group = nullptr, int stage = 0) {
  CardMemory card(CardId{0}, uint64_t{1} << 30);
  TrainEngineOptions options;
  options.model = model;
  options.card = &card;
  options.zero.group = group;
  options.zero.stage = stage;
  auto engine = TrainEngine::create(options).value();
  const auto loaded = engine->load_model(folder);
  ASSERT_TRUE(loaded) << loaded.error().detail;
  const auto saved = engine->save(to);
  ASSERT_TRUE(saved) << saved.error().detail;
}

class Families : public ::testing::TestWithParam<const char*> {};

TEST_P(Families, AFolderIsExportedToTheBit) {
  const TempFolder temp;
  const fs::path from = k_models / GetParam(), to = temp.path() / "out";
  const ExportReport report = exported({.checkpoint = from, .folder = to});
  EXPECT_EQ(report.dtype, tensor::Dtype::bf16);
  EXPECT_EQ(numbers_of(to, GetParam()), numbers_of(from, GetParam()));
  EXPECT_EQ(tensors_of(to), tensors_of(from));
  EXPECT_EQ(config_of(to), config_of(from));
  const json old = json_of(from / "config.json"), made = json_of(to / "config.json");
  EXPECT_EQ(made["architectures"], old["architectures"]);
  for (const char* key : {"eos_token_id", "bos_token_id", "pad_token_id"})
    EXPECT_EQ(made.value(key, json()), old.value(key, json())) << key;
  EXPECT_EQ(made["torch_dtype"], "bfloat16");
}

TEST_P(Families, SmallFilesHaveAnIndex) {
  const TempFolder temp;
  const fs::path from = k_models / GetParam(), to = temp.path() / "out";
  const ExportReport report = exported({.checkpoint = from, .folder = to, .shard_bytes_max = 8000});
  ASSERT_GT(report.files, 2U);
  EXPECT_FALSE(fs::exists(to / "model.safetensors"));
  const json index = json_of(to / "model.safetensors.index.json");
  EXPECT_EQ(index["metadata"]["total_size"], report.bytes);
  EXPECT_EQ(index["weight_map"].size(), tensors_of(from).size());
  EXPECT_EQ(numbers_of(to, GetParam()), numbers_of(from, GetParam()));
}

INSTANTIATE_TEST_SUITE_P(All, Families,
                         ::testing::Values("qwen2", "qwen3", "llama", "mistral", "qwen3_moe",
                                           "qwen2_moe", "deepseek_v2", "deepseek_v3"),
                         [](const auto& param) { return std::string(param.param); });

class Trained : public ::testing::TestWithParam<const char*> {};

TEST_P(Trained, ACheckpointKnowsWhereItCameFrom) {
  const TempFolder temp;
  const fs::path from = temp.path() / "model", saved = temp.path() / "step_0";
  fs::copy(k_models / GetParam(), from);
  add_text_files(from);
  ModelConfig model = config_of(from);
  model.max_position = 33;  // a run's sequence_length
  checkpoint(from, model, saved);
  const fs::path to = temp.path() / "out";
  const ExportReport report = exported({.checkpoint = saved, .folder = to});
  EXPECT_EQ(report.copied, (std::vector<std::string>{"tokenizer.json", "generation_config.json",
                                                     "additional_chat_templates/tool_use.jinja"}));
  for (const std::string& name : report.copied)
    EXPECT_EQ(test::slurp(to / name), test::slurp(from / name)) << name;
  EXPECT_EQ(numbers_of(to, GetParam()), numbers_of(from, GetParam()));
  EXPECT_EQ(tensors_of(to), tensors_of(from));
  EXPECT_EQ(config_of(to).max_position, config_of(from).max_position);
  EXPECT_FALSE(json_of(to / "config.json").contains("_name_or_path"));
  EXPECT_TRUE(report.notices.empty());
}

INSTANTIATE_TEST_SUITE_P(All, Trained, ::testing::Values("qwen2", "qwen3", "llama", "mistral"),
                         [](const auto& param) { return std::string(param.param); });

TEST(ExportFolder, AClassificationHeadGoesAlong) {
  const TempFolder temp;
  const fs::path from = temp.path() / "model", to = temp.path() / "out";
  fs::copy(k_models / "qwen2_score", from);
  add_text_files(from);
  const ExportReport report = exported({.checkpoint = from, .folder = to});
  EXPECT_EQ(report.copied.size(), 3U);
  EXPECT_EQ(tensors_of(to), tensors_of(from));
  const Ids ids = json_of(from / "golden.json")["ids"][0].get<Ids>();
  const auto score = [&](const fs::path& folder) {
    return LanguageModel::open({.folder = folder}).value()->head_scores(ids).value().values;
  };
  EXPECT_EQ(score(to), score(from));
}

TEST(ExportFolder, TheSlicesOfTwoTrainCardsAreOneFolder) {
  const TempFolder temp;
  const ModelConfig model = config_of(k_models / "llama");
  auto rendezvous = Rendezvous::in_process();
  tests::on_threads(2, [&](int rank) {
    auto group = Collectives::join(tests::group_options(rank, 2, "g", rendezvous)).value();
    checkpoint(k_models / "llama", model, temp.path() / "step_0", group.get(), 3);
  });
  exported({.checkpoint = temp.path() / "step_0", .folder = temp.path() / "out"});
  EXPECT_EQ(tensors_of(temp.path() / "out"), tensors_of(k_models / "llama"));
}

TEST(ExportFolder, WhatCameInF32GoesOutInF32AndIsRoundedOnceForBf16) {
  const TempFolder temp;
  const fs::path whole = temp.path() / "whole", saved = temp.path() / "step_0";
  exported({.checkpoint = k_models / "qwen2", .folder = whole, .dtype = tensor::Dtype::f32});
  EXPECT_EQ(numbers_of(whole, "qwen2"), numbers_of(k_models / "qwen2", "qwen2"));
  // A value between two of bf16: nearer to the upper one.
  std::fstream file(whole / "model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
  const float between = 1 + 0x1.8p-8F;
  file.seekp(-4, std::ios::end);
  file.write(reinterpret_cast<const char*>(&between), sizeof between);
  file.close();
  checkpoint(whole, config_of(whole), saved);
  const fs::path to = temp.path() / "out", half = temp.path() / "half";
  EXPECT_EQ(exported({.checkpoint = saved, .folder = to}).dtype, tensor::Dtype::f32);
  EXPECT_EQ(tensors_of(to), tensors_of(whole));
  EXPECT_EQ(json_of(to / "config.json")["dtype"], "float32");
  exported({.checkpoint = saved, .folder = half, .dtype = tensor::Dtype::bf16});
  const SafetensorsFile rounded = SafetensorsFile::open(half / "model.safetensors").value();
  const auto last = rounded.tensors().back().bytes.last(2);
  EXPECT_EQ(std::to_integer<int>(last[0]) | std::to_integer<int>(last[1]) << 8, 0x3f81);
}

TEST(ExportFolder, ARunGoesOnFromACheckpointOfARunThatIsItsPretrain) {
  const TempFolder temp;
  const fs::path from = temp.path() / "model";
  fs::copy(k_models / "qwen3", from);
  add_text_files(from);
  checkpoint(from, config_of(from), temp.path() / "first");
  checkpoint(temp.path() / "first", config_of(from), temp.path() / "second");
  const ExportReport report =
      exported({.checkpoint = temp.path() / "second", .folder = temp.path() / "out"});
  EXPECT_EQ(report.copied.front(), "tokenizer.json");
}

/// The values of a folder's tensors in the order of the layout.
std::vector<float> flat_of(const fs::path& folder, const ModelConfig& model) {
  const WeightFolder weights = WeightFolder::open(folder).value();
  const ParameterLayout layout = layout_of(model);
  std::vector<float> flat(static_cast<size_t>(layout.total_elements));
  for (const ParameterSpec& spec : layout.specs)
    weights.read(
        spec.name, 0,
        std::span(flat).subspan(static_cast<size_t>(spec.offset), static_cast<size_t>(spec.count)));
  return flat;
}

void expect_merged_as_served(const fs::path& adapter, const fs::path& base) {
  const TempFolder temp;
  const fs::path to = temp.path() / "out";
  const ExportReport report = exported({.checkpoint = adapter,
                                        .folder = to,
                                        .merges_adapter = true,
                                        .base = base,
                                        .dtype = tensor::Dtype::f32});
  EXPECT_EQ(report.dtype, tensor::Dtype::f32);
  // Equal to the adapter over its base, whose numbers language_models_test holds against PEFT.
  auto merged = LanguageModel::open({.folder = base, .adapter = adapter}).value();
  const Ids ids = json_of(base / "golden.json")["ids"][0].get<Ids>();
  const auto expected = merged->score(ids, 1).value().log_probs;
  EXPECT_EQ(LanguageModel::open({.folder = to}).value()->score(ids, 1).value().log_probs, expected);
  EXPECT_NE(LanguageModel::open({.folder = base}).value()->score(ids, 1).value().log_probs,
            expected);
  const ModelConfig model = config_of(base);
  const LoraFolder read = LoraFolder::open(adapter, layout_of(model)).value();
  EXPECT_GT(read.modules(), 0U);
  const LoraBase served = LoraBase::open(base, model, read.shape()).value();
  std::vector<float> halves(static_cast<size_t>(served.layout().flat.total_elements));
  for (const ParameterSpec& spec : served.layout().flat.specs)
    ASSERT_TRUE(copy_to_f32(*read.file().find(spec.name),
                            std::span(halves).subspan(static_cast<size_t>(spec.offset),
                                                      static_cast<size_t>(spec.count))));
  std::vector<float> flat(static_cast<size_t>(layout_of(model).total_elements));
  served.merge(std::as_bytes(std::span(halves)), std::as_writable_bytes(std::span(flat)));
  EXPECT_EQ(flat_of(to, model), flat);
}

TEST(ExportFolder, AnAdapterIsMergedToTheBitsThatARolloutServes) {
  expect_merged_as_served(k_models / "qwen3_lora", k_models / "qwen3");
  expect_merged_as_served(k_models.parent_path() / "lora/qwen3_moe_experts",
                          k_models / "qwen3_moe");
}

/// One thing that is wrong.
struct Refusal {
  const char* name;
  void (*spoil)(const fs::path& temp);
  ExportOptions options;  // paths are below the temporary folder
  Errc code;
  const char* message;
};

const Refusal k_refusals[] = {
    {"FolderHasAFile",
     [](const fs::path& temp) {
       fs::create_directory(temp / "out");
       write(temp / "out/mine.txt", "mine");
     },
     {},
     Errc::invalid_argument,
     "out: exists and is not an empty folder"},
    {"FolderIsAFile",
     [](const fs::path& temp) { write(temp / "out", "mine"); },
     {},
     Errc::invalid_argument,
     "out: exists and is not an empty folder"},
    {"NoConfig",
     [](const fs::path& temp) { fs::remove(temp / "step_0/config.json"); },
     {},
     Errc::not_found,
     "config.json"},
    {"AnAdapter",
     [](const fs::path& temp) {
       fs::remove(temp / "step_0/config.json");
       write(temp / "step_0/adapter_config.json", "{}");
     },
     {},
     Errc::unsupported,
     "holds a LoRA adapter"},
    {"NoWeights",
     [](const fs::path& temp) { fs::remove(temp / "step_0/model.safetensors"); },
     {},
     Errc::not_found,
     "neither model.safetensors nor"},
    {"Damaged",
     [](const fs::path& temp) {
       std::fstream file(temp / "step_0/model.safetensors",
                         std::ios::binary | std::ios::in | std::ios::out);
       file.seekp(-5, std::ios::end);
       file.put('x');
     },
     {},
     Errc::corrupt,
     "the checkpoint is damaged"},
    {"SourceIsGone",
     [](const fs::path& temp) { fs::remove_all(temp / "model"); },
     {},
     Errc::not_found,
     "--tokenizer FOLDER"},
    {"NoTokenizerWhereItIsSaid",
     [](const fs::path&) {},
     {.text = ExportOptions::Text::of_folder, .text_folder = "/nonexistent"},
     Errc::not_found,
     "/nonexistent: has no tokenizer.json"},
    {"UnknownKey",
     [](const fs::path& temp) {
       json config = json_of(temp / "step_0/config.json");
       config["logit_scale"] = 2;
       write(temp / "step_0/config.json", config.dump());
     },
     {},
     Errc::config,
     "'logit_scale'"},
};

class Refusals : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refusals, LeaveNothingBehind) {
  const TempFolder temp;
  const fs::path from = temp.path() / "model";
  fs::copy(k_models / "qwen3", from);
  checkpoint(from, config_of(from), temp.path() / "step_0");
  GetParam().spoil(temp.path());
  const auto names = [&] {
    std::set<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(temp.path())) found.insert(entry);
    return found;
  };
  const auto before = names();
  ExportOptions options = GetParam().options;
  options.checkpoint = temp.path() / "step_0";
  options.folder = temp.path() / "out";
  const auto report = export_folder(options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, GetParam().code);
  EXPECT_NE(report.error().detail.find(GetParam().message), std::string::npos)
      << report.error().detail;
  EXPECT_EQ(names(), before);
}

INSTANTIATE_TEST_SUITE_P(All, Refusals, ::testing::ValuesIn(k_refusals),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(ExportFolder, AnEmptyFolderIsFilledAndAnOldOneReplacedIfThatIsWanted) {
  const TempFolder temp;
  const fs::path to = temp.path() / "out";
  fs::create_directory(to);
  exported({.checkpoint = k_models / "qwen2", .folder = to});
  write(to / "stale.txt", "of the old one");
  exported({.checkpoint = k_models / "qwen3", .folder = to, .replaces = true});
  EXPECT_FALSE(fs::exists(to / "stale.txt"));
  EXPECT_EQ(json_of(to / "config.json")["model_type"], "qwen3");
}

}  // namespace
}  // namespace cohort::compute
