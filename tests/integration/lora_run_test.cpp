// LoRA as a user runs it: from a checkpoint of a run, with a reference that has no card, resumed,
// over several processes, and from an adapter.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using test::hashes;
using test::logprobs_of;
using test::Process;
using test::run_folder;
using test::TempFolder;

std::vector<std::string> rlvr_run(const TempFolder& folder, const std::vector<std::string>& more) {
  std::vector<std::string> overrides = {"rollout_batch_size=8", "num_return_sequences_in_group=4",
                                        "val_batch_size=16", "val_n_sample=2"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return test::small_run(
      std::string(std::getenv("COHORT_SOURCE_DIR")) + "/configs/arithmetic_rlvr.yaml", folder,
      overrides);
}

/// A folder with a model that a warm start has taught something.
class LoraRun : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    warm_ = new TempFolder();
    Process run(rlvr_run(*warm_, {"max_steps=1"}), *warm_);
    ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
    base_ = run_folder(run) + "/checkpoints/step_1";
  }
  static void TearDownTestSuite() {
    delete warm_;
    warm_ = nullptr;
  }
  static std::vector<std::string> lora_run(const TempFolder& folder,
                                           const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"pretrain=" + base_,
                                    "warm_start.steps=0",
                                    "actor_train.model_args.lora_target=all-linear",
                                    "actor_train.model_args.lora_rank=4",
                                    "actor_train.training_args.learning_rate=1.0e-2",
                                    "entropy_loss_coef=0.1",  // moves it where no answer is right
                                    "use_kl_loss=true",
                                    "kl_penalty=k3",
                                    "kl_loss_coef=0.01"};
    all.insert(all.end(), more.begin(), more.end());
    return rlvr_run(folder, all);
  }

  static TempFolder* warm_;
  static std::string base_;
};
TempFolder* LoraRun::warm_ = nullptr;
std::string LoraRun::base_;

/// Bytes that a publish has moved, of each span of the trace.
std::vector<uint64_t> published_bytes(const std::string& folder) {
  std::ifstream in(folder + "/trace.json");
  std::vector<uint64_t> bytes;
  for (const auto& span : nlohmann::json::parse(in))
    if (span.value("cat", "") == "publish" &&
        span.at("name").get<std::string>().find("actor_train.train_params") != std::string::npos)
      bytes.push_back(span.at("args").at("bytes"));
  return bytes;
}

TEST_F(LoraRun, TrainsAnAdapterAgainstItsBase) {
  TempFolder folder;
  Process run(lora_run(folder), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  std::vector<double> kl;
  for (const auto& row : test::metric_rows(run_folder(run)))
    if (row.contains("critic/kl")) kl.push_back(row.at("critic/kl").get<double>());
  ASSERT_EQ(kl.size(), 4U);
  EXPECT_NEAR(kl.front(), 0, 1e-5) << "before the first update the adapter changes nothing";
  EXPECT_GT(kl.back(), 1e-4) << "afterwards the policy has moved away from its base";
  const fs::path saved = run_folder(run) + "/checkpoints/step_4";
  EXPECT_TRUE(fs::exists(saved / "adapter_config.json"));
  EXPECT_TRUE(fs::exists(saved / "adapter_model.safetensors"));
  EXPECT_FALSE(fs::exists(saved / "model.safetensors"));
  EXPECT_LT(fs::file_size(saved / "optimizer.safetensors"),
            fs::file_size(base_ + "/optimizer.safetensors"));
  // Rank 4 over one layer 16 wide, in f32: 4 * (in + out) of q, k, v, o, gate, up and down.
  const auto published = published_bytes(run_folder(run));
  ASSERT_FALSE(published.empty());
  for (uint64_t bytes : published)
    EXPECT_EQ(bytes, 4U * 4U * (2 * (16 + 16) + 2 * (16 + 8) + 3 * (16 + 32)));
  Process verified({test::binary("traj"), "verify", run_folder(run)}, folder);
  EXPECT_EQ(verified.wait(), 0) << verified.err() << verified.out();
}

TEST_F(LoraRun, ResumedOrInProcessesItEndsWithTheSameHash) {
  TempFolder whole;
  Process reference(lora_run(whole), whole);
  ASSERT_EQ(reference.wait(), 0) << reference.err();
  const auto expected = hashes(run_folder(reference));
  TempFolder folder;
  Process first(lora_run(folder, {"max_steps=2"}), folder);
  ASSERT_EQ(first.wait(), 0) << first.err();
  Process resumed(lora_run(folder, {"resume_from_checkpoint=true"}), folder);
  ASSERT_EQ(resumed.wait(), 0) << resumed.err();
  const auto found = hashes(run_folder(resumed));
  EXPECT_EQ(found.at(2), expected.at(2));
  EXPECT_EQ(found.at(4), expected.at(4));
  TempFolder split;
  auto command = lora_run(split);
  command.insert(command.begin() + 2, {"--processes", "2"});
  Process processes(command, split);
  ASSERT_EQ(processes.wait(), 0) << processes.err();
  EXPECT_EQ(hashes(run_folder(processes)), expected);
}

/// What a rollout samples from is what the trainer trains: merged on one card, or on two in parts.
TEST_F(LoraRun, RolloutsServeTheAdapterOfTheTrainer) {
  for (const std::vector<std::string>& how : std::vector<std::vector<std::string>>{
           {},
           {"num_gpus_per_node=3", "actor_infer.device_mapping=[1,2]",
            "actor_infer.strategy_args.strategy_config={tensor_parallel_size: 2}"}}) {
    TempFolder folder;
    auto more = how;
    more.emplace_back("enable_old_logprobs_recompute=true");
    Process run(lora_run(folder, more), folder);
    ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
    size_t steps = 0;
    for (const auto& row : test::metric_rows(run_folder(run)))
      if (row.contains("old_log_probs/behavior_gap")) {
        EXPECT_LT(row.at("old_log_probs/behavior_gap").get<double>(), 1e-4);
        ++steps;
      }
    EXPECT_EQ(steps, 4U);
  }
}

TEST_F(LoraRun, StartsFromAnAdapter) {
  TempFolder folder;
  Process first(lora_run(folder, {"max_steps=1"}), folder);
  ASSERT_EQ(first.wait(), 0) << first.err();
  const std::string adapter =
      "actor_train.model_args.adapter_name_or_path=" + run_folder(first) + "/checkpoints/step_1";
  TempFolder next;
  Process second(lora_run(next, {adapter, "use_kl_loss=false", "max_steps=1",
                                 "actor_train.training_args.learning_rate=0"}),
                 next);
  ASSERT_EQ(second.wait(), 0) << second.err();
  EXPECT_EQ(hashes(run_folder(second)).at(1), hashes(run_folder(first)).at(1));
  TempFolder refused;
  Process third(lora_run(refused, {adapter}), refused);
  EXPECT_NE(third.wait(), 0);
  EXPECT_NE(third.err().find("starts from an adapter has no reference"), std::string::npos)
      << third.err();
}

TEST_F(LoraRun, ExportsTheModelWithItsAdapterMerged) {
  TempFolder folder;
  Process run(lora_run(folder, {"max_steps=2", "save_hf=true"}), folder);
  ASSERT_EQ(run.wait(), 0) << run.err();
  const fs::path adapter = fs::path(run_folder(run)) / "checkpoints/step_2";
  const auto exported = [&](const std::string& from, const std::string& name,
                            std::vector<std::string> more) {
    more.insert(more.begin(),
                {test::binary("actor-node"), "export", from, (folder.path() / name).string()});
    return Process(more, folder);
  };
  Process merged = exported(run_folder(run), "merged", {"--merge", "--dtype", "f32"});
  ASSERT_EQ(merged.wait(), 0) << merged.err();
  EXPECT_EQ(logprobs_of(folder.path() / "merged", folder),
            logprobs_of(base_, folder, {"--adapter", adapter}));
  EXPECT_NE(logprobs_of(folder.path() / "merged", folder), logprobs_of(base_, folder));
  // save_hf has written the same folder, and the model as it was under the first adapter.
  const fs::path saved = fs::path(run_folder(run)) / "hf";
  for (const char* file : {"model.safetensors", "config.json"})
    EXPECT_EQ(test::slurp(saved / "step_2" / file), test::slurp(folder.path() / "merged" / file));
  EXPECT_EQ(logprobs_of(saved / "step_0", folder), logprobs_of(base_, folder));
  // Without --merge, over another model, or without one, nothing is written.
  const std::string first = fs::path(base_).parent_path() / "step_0";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "--merge writes the whole model"},
      {{"--merge", "--base", first}, "was trained over another model than"},
      {{"--merge", "--base", folder.path()}, "--base FOLDER names it"}};
  for (const auto& [more, message] : cases) {
    Process refused = exported(adapter, "refused", more);
    EXPECT_EQ(refused.wait(), 2);
    EXPECT_NE(refused.err().find(message), std::string::npos) << refused.err();
    EXPECT_FALSE(fs::exists(folder.path() / "refused"));
  }
  Process whole = exported(base_, "refused", {"--merge"});
  EXPECT_EQ(whole.wait(), 2);
  EXPECT_NE(whole.err().find("is no LoRA adapter"), std::string::npos) << whole.err();
}

TEST_F(LoraRun, AReferenceOfItsOwnStandsBesideAnAdapter) {
  TempFolder folder, other;
  Process stranger(rlvr_run(other, {"max_steps=1", "warm_start.steps=0", "seed=5"}), other);
  ASSERT_EQ(stranger.wait(), 0) << stranger.err();
  const std::string first = run_folder(stranger) + "/checkpoints/step_0";
  Process run(lora_run(folder, {"max_steps=1", "num_gpus_per_node=3",
                                "+reference.model_args.model_name_or_path=" + first,
                                "+reference.device_mapping=[2]"}),
              folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  for (const auto& row : test::metric_rows(run_folder(run)))
    if (row.contains("critic/kl")) {
      EXPECT_GT(std::abs(row.at("critic/kl").get<double>()), 1e-3);
    }
}

TEST_F(LoraRun, ATextWithCommasAndAPatternNameModules) {
  for (const auto& [target, expected] : std::vector<std::pair<std::string, nlohmann::json>>{
           {"'q_proj, v_proj'", {"q_proj", "v_proj"}},
           {"'.*mlp\\.(up|down)_proj'", {"down_proj", "up_proj"}}}) {
    TempFolder folder;
    Process run(lora_run(folder, {"max_steps=1", "actor_train.model_args.lora_target=" + target}),
                folder);
    ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
    std::ifstream in(run_folder(run) + "/checkpoints/step_1/adapter_config.json");
    EXPECT_EQ(nlohmann::json::parse(in).at("target_modules"), expected);
  }
}

TEST_F(LoraRun, WhatIsNotBuiltInIsRefusedByName) {
  for (const auto& [override_text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"pretrain=~", "an adapter is trained over weights"},
           {"actor_train.model_args.lora_target=lm_head", "'lm_head' is no linear layer"},
           {"actor_train.model_args.lora_dropout=0.1", "lora_dropout"}}) {
    TempFolder folder;
    Process run(lora_run(folder, {override_text}), folder);
    EXPECT_NE(run.wait(), 0) << override_text;
    EXPECT_NE(run.err().find(expected), std::string::npos) << run.err();
  }
}

}  // namespace
}  // namespace cohort
