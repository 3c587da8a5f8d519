// actor-node export and save_hf as a user has them: a run's folder in, a Hugging Face folder out.
// Runs that start from a shape without weights (pretrain: random:…).
#include <gtest/gtest.h>

#include <set>

#include "tests/support/byte_folder.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using test::logprobs_of;
using test::Process;
using test::slurp;
using test::TempFolder;

std::string model_folder(const std::string& family) {
  return std::string(std::getenv("COHORT_SOURCE_DIR")) + "/tests/data/language_models/" + family;
}

std::vector<std::string> export_of(const std::string& from, const fs::path& to,
                                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> command = {test::binary("actor-node"), "export", from, to.string()};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

/// A step of addition that leaves a Hugging Face folder of each checkpoint.
std::vector<std::string> addition_run(const TempFolder& folder, const std::string& pretrain,
                                      std::vector<std::string> more = {}) {
  more.insert(more.begin(), "save_hf=true");
  return test::addition_run(folder.path() / "out", pretrain, more);
}

TEST(Export, CheckpointsOfARunAreHuggingFaceFolders) {
  const TempFolder folder;
  Process run(test::tiny_run(folder, {"max_steps=2", "save_hf=true", "keep_checkpoints=1"}),
              folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  const fs::path path = test::run_folder(run);
  EXPECT_EQ(names_in(path / "checkpoints"), (std::set<std::string>{"step_0", "step_2"}));
  EXPECT_EQ(names_in(path / "hf"), (std::set<std::string>{"step_0", "step_2"}));
  const fs::path out = folder.path() / "out";
  Process exported(export_of(path, out), folder);
  ASSERT_EQ(exported.wait(), 0) << exported.err();
  EXPECT_NE(exported.out().find("checkpoints/step_2"), std::string::npos) << exported.out();
  for (const char* name : {"config.json", "model.safetensors"})
    EXPECT_EQ(slurp(out / name), slurp(path / "hf/step_2" / name)) << name;
  EXPECT_EQ(logprobs_of(out, folder), logprobs_of(path / "checkpoints/step_2", folder));
  EXPECT_NE(logprobs_of(path / "hf/step_0", folder), logprobs_of(out, folder));
}

TEST(Export, ARunThatGoesOnWritesTheFolderThatAKillLeftOut) {
  const TempFolder folder;
  Process run(test::tiny_run(folder, {"max_steps=1", "save_hf=true"}), folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  const fs::path path = test::run_folder(run);
  const std::string before = slurp(path / "hf/step_1/model.safetensors");
  fs::remove_all(path / "hf/step_1");
  Process again(
      test::tiny_run(folder, {"max_steps=2", "save_hf=true", "resume_from_checkpoint=true"}),
      folder);
  ASSERT_EQ(again.wait(), 0) << again.err();
  EXPECT_EQ(slurp(path / "hf/step_1/model.safetensors"), before);
  EXPECT_TRUE(fs::exists(path / "hf/step_2"));
}

TEST(Export, WhatWasNotTrainedIsTheFolderThatTheRunStartedFrom) {
  const TempFolder folder;
  const fs::path model = folder.path() / "model";
  tests::write_byte_model(model);
  Process run(addition_run(folder, model.string(), {"~model"}), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const fs::path path = test::run_folder(run), out = folder.path() / "exported";
  Process exported(export_of(path / "checkpoints/step_0", out), folder);
  ASSERT_EQ(exported.wait(), 0) << exported.err();
  EXPECT_EQ(exported.err(), "");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    EXPECT_EQ(slurp(out / name), slurp(model / name)) << name;
  EXPECT_EQ(logprobs_of(out, folder), logprobs_of(model, folder));
  EXPECT_EQ(fs::file_size(out / "model.safetensors") / 1024,
            fs::file_size(model / "model.safetensors") / 1024);  // bf16 as there
  const auto config = nlohmann::json::parse(slurp(out / "config.json"));
  EXPECT_EQ(config["max_position_embeddings"], 2048);
  EXPECT_EQ(config["eos_token_id"], tests::k_im_end);
}

TEST(RandomShape, ARunDrawsTheWeightsOfAConfigJson) {
  const TempFolder folder;
  const fs::path model = folder.path() / "model";
  tests::write_byte_model(model);
  fs::remove(model / "model.safetensors");
  const auto first_policy = [&](const std::string& pretrain, const std::string& seed) {
    Process run(addition_run(folder, pretrain, {"seed=" + seed}), folder);
    EXPECT_EQ(run.wait(), 0) << run.err() << run.out();
    EXPECT_NE(run.err().find("model: has no effect but for its tokenizer"), std::string::npos)
        << run.err();
    return fs::path(test::run_folder(run)) / "hf/step_0";
  };
  const fs::path one = first_policy("random:" + (model / "config.json").string(), "1");
  const fs::path two = first_policy("random:" + model.string(), "1");
  const fs::path other = first_policy("random:" + model.string(), "2");
  EXPECT_EQ(slurp(one / "model.safetensors"), slurp(two / "model.safetensors"));
  EXPECT_NE(slurp(one / "model.safetensors"), slurp(other / "model.safetensors"));
  EXPECT_EQ(slurp(one / "tokenizer.json"), slurp(model / "tokenizer.json"));
  const auto config = nlohmann::json::parse(slurp(one / "config.json"));
  EXPECT_EQ(config["vocab_size"], 264);
  EXPECT_EQ(config["max_position_embeddings"], 2048);
  EXPECT_EQ(config["eos_token_id"], tests::k_im_end);
}

TEST(RandomShape, AShapeWithoutATokenizerTakesTheSections) {
  const TempFolder folder;
  const fs::path model = folder.path() / "model", text = folder.path() / "text";
  tests::write_byte_model(model);
  fs::rename(model / "config.json", folder.path() / "small.json");
  fs::create_directory(text);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    fs::rename(model / name, text / name);
  const std::string pretrain = "random:" + (folder.path() / "small.json").string();
  Process words(addition_run(folder, pretrain), folder);
  ASSERT_EQ(words.wait(), 0) << words.err() << words.out();
  EXPECT_EQ(names_in(fs::path(test::run_folder(words)) / "hf/step_0"),
            (std::set<std::string>{"config.json", "model.safetensors"}));
  Process given(addition_run(folder, pretrain, {"~model", "+model.tokenizer=" + text.string()}),
                folder);
  ASSERT_EQ(given.wait(), 0) << given.err() << given.out();
  EXPECT_EQ(given.err().find("has no effect but for its tokenizer"), std::string::npos)
      << given.err();
  EXPECT_EQ(slurp(fs::path(test::run_folder(given)) / "hf/step_0/tokenizer.json"),
            slurp(text / "tokenizer.json"));
}

TEST(RandomShape, ANameThatNobodyKnowsIsRefused) {
  const TempFolder folder;
  Process run(addition_run(folder, "random:Qwen9-1B"), folder);
  EXPECT_EQ(run.wait(), 2);
  EXPECT_NE(run.err().find("'Qwen9-1B': no shape ships under that name"), std::string::npos)
      << run.err();
  Process plan({test::binary("actor-node"), "plan",
                std::string(std::getenv("COHORT_SOURCE_DIR")) + "/configs/arithmetic_rlvr.yaml",
                "pretrain=random:Qwen2.5-0.5B", "cards.memory_bytes=64GiB"},
               folder);
  EXPECT_EQ(plan.wait(), 0) << plan.err();
  EXPECT_NE(plan.out().find("494,032,768"), std::string::npos) << plan.out();
}

TEST(Export, AKilledExportLeavesNothingUnderTheName) {  // EXPORT-2
  const TempFolder folder;
  const fs::path out = folder.path() / "out";
  std::vector<std::string> command = export_of(model_folder("qwen2"), out);
  command.insert(command.begin(), {"env", "COHORT_FAILPOINT=export.written:1:kill"});
  Process killed(command, folder);
  EXPECT_EQ(killed.wait(), -SIGKILL);
  EXPECT_FALSE(fs::exists(out));
  Process again(export_of(model_folder("qwen2"), out), folder);
  EXPECT_EQ(again.wait(), 0) << again.err();
  EXPECT_EQ(logprobs_of(out, folder), logprobs_of(model_folder("qwen2"), folder));
}

TEST(Export, AFullDiskIsNamedAndLeavesNothing) {
  const TempFolder folder, disk;
  std::string words;
  for (const std::string& word :
       export_of(model_folder("qwen3_moe"), disk.path() / "out", {"--dtype", "f32"}))
    words += " '" + word + "'";
  Process full(
      {"unshare", "-rm", "sh", "-c",
       "mount -t tmpfs -o size=32k tmpfs " + disk.path().string() + " 2>/dev/null || exit 77;" +
           words + "; code=$?; ls -A " + disk.path().string() + "; exit $code"},
      folder);
  const int code = full.wait();
  if (code == 77) GTEST_SKIP() << "no user namespace with a tmpfs here";
  EXPECT_EQ(code, 1) << full.err();
  EXPECT_NE(full.err().find("No space left"), std::string::npos) << full.err();
  EXPECT_NE(full.err().find(disk.path().string()), std::string::npos) << full.err();
  EXPECT_EQ(full.out(), "");
}

TEST(Export, WhatCannotBeUsedIsNamed) {
  const TempFolder folder;
  Process nothing(export_of(folder.path().string(), folder.path() / "out"), folder);
  EXPECT_EQ(nothing.wait(), 2);
  EXPECT_NE(nothing.err().find("neither a checkpoint"), std::string::npos) << nothing.err();
  Process filled(export_of(model_folder("qwen2"), folder.path()), folder);
  EXPECT_EQ(filled.wait(), 2);
  EXPECT_NE(filled.err().find("not an empty folder"), std::string::npos) << filled.err();
}

}  // namespace
}  // namespace cohort
