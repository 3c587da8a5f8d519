// The quickstart command of verl, as a user runs it here: a folder with a model, a tokenizer and a
// chat template, rows of GSM8K's form in parquet, verl's keys. Its sizes are small.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/byte_folder.hpp"
#include "tests/support/said.hpp"
#include "tests/support/tiny_run.hpp"
#include "tests/support/verl_command.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using test::Process;
using test::TempFolder;

std::string source(const std::string& path) {
  return std::string(std::getenv("COHORT_SOURCE_DIR")) + "/" + path;
}

/// A model of 2 layers whose tokens are bytes.
std::string model_folder(const TempFolder& folder) {
  const fs::path path = folder.path() / "Tiny-Instruct";
  tests::write_byte_model(path);
  return path.string();
}

/// What changes in the quickstart command: paths, the platform, sizes and steps.
std::vector<std::string> quickstart_run(const TempFolder& folder,
                                        const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {test::binary("actor-node"), "run", "--plain", "--dialect",
                                    "verl"};
  const std::string rows = source("tests/data/parquet/gsm8k.parquet");
  const std::vector<std::string> small = {"actor_rollout_ref.model.path=" + model_folder(folder),
                                          "data.train_files=" + rows,
                                          "data.val_files=" + rows,
                                          "platform=cpu",
                                          "cards.memory_bytes=256MiB",
                                          "cards.reserve_bytes=16MiB",
                                          "output_dir=" + folder.path().string(),
                                          "trainer.n_gpus_per_node=2",
                                          "data.train_batch_size=4",
                                          "data.max_response_length=12",
                                          "actor_rollout_ref.actor.ppo_mini_batch_size=2",
                                          "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=5",
                                          "trainer.total_training_steps=2"};
  for (const std::string& word : test::quickstart(small)) words.push_back(word);
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::map<uint64_t, nlohmann::json> rows_of(const std::string& run) {
  std::map<uint64_t, nlohmann::json> rows;
  for (const auto& row : test::metric_rows(run)) rows[row.at("step").get<uint64_t>()] = row;
  return rows;
}

void expect_verified(const std::string& run, const TempFolder& folder) {
  Process verify({test::binary("traj"), "verify", run}, folder);
  EXPECT_EQ(verify.wait(), 0) << verify.out() << verify.err();
}

TEST(VerlRun, TheQuickstartCommandTrains) {
  TempFolder folder;
  Process run(quickstart_run(folder), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const std::string path = test::run_folder(run);
  const auto rows = rows_of(path);
  ASSERT_EQ(rows.size(), 3U);  // before the first step, and two steps
  for (uint64_t step : {1U, 2U}) {
    const nlohmann::json& row = rows.at(step);
    EXPECT_TRUE(std::isfinite(row.at("loss").get<double>()));
    EXPECT_TRUE(std::isfinite(row.at("actor/kl_loss").get<double>()));
    EXPECT_GT(row.at("actor/grad_norm").get<double>(), 0);
    EXPECT_TRUE(row.contains("rewards/data_source/mean")) << row.dump();
    EXPECT_NE(row.at("param_hash"), rows.at(step - 1).at("param_hash"));
  }
  EXPECT_EQ(rows.at(1).at("policy_version").get<int64_t>() + 1,
            rows.at(2).at("policy_version").get<int64_t>());
  EXPECT_TRUE(rows.at(2).contains("val/success_greedy"));
  expect_verified(path, folder);
  // The same, each card in a process of its own.
  TempFolder other;
  Process spread(quickstart_run(other, {"--processes", "2"}), other);
  ASSERT_EQ(spread.wait(), 0) << spread.err() << spread.out();
  EXPECT_EQ(test::hashes(test::run_folder(spread)), test::hashes(path));
}

/// PPO: the critic starts from the policy's folder, on its cards, which the rollout shares too.
TEST(VerlRun, PpoTrainsACriticBeside) {
  TempFolder folder;
  const std::vector<std::string> ppo = {
      "algorithm.adv_estimator=gae", "critic.ppo_micro_batch_size_per_gpu=5",
      "critic.ppo_mini_batch_size=4", "critic.optim.lr=1e-3", "trainer.critic_warmup=2"};
  Process run(quickstart_run(folder, ppo), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const std::string path = test::run_folder(run);
  const auto rows = rows_of(path);
  ASSERT_EQ(rows.size(), 3U);
  // verl counts steps from 1: the policy's first update is step 2.
  EXPECT_FALSE(rows.at(1).contains("actor/pg_loss")) << rows.at(1).dump();
  EXPECT_TRUE(rows.at(2).contains("actor/pg_loss")) << rows.at(2).dump();
  EXPECT_NE(rows.at(2).at("param_hash"), rows.at(1).at("param_hash"));
  EXPECT_NE(rows.at(2).at("critic/param_hash"), rows.at(1).at("critic/param_hash"));
  EXPECT_EQ(rows.at(1).at("critic/lr").get<double>(), 1e-3);
  EXPECT_TRUE(rows.at(1).contains("critic/vf_clipfrac")) << "cliprange_value is .5";
  expect_verified(path, folder);
  TempFolder other;
  auto spread_command = ppo;
  spread_command.insert(spread_command.end(), {"--processes", "2"});
  Process spread(quickstart_run(other, spread_command), other);
  ASSERT_EQ(spread.wait(), 0) << spread.err() << spread.out();
  EXPECT_EQ(test::hashes(test::run_folder(spread)), test::hashes(path));
}

/// Only A and B are trained and published; the reference is the model with them off, and FSDP over
/// two cards cuts the adapter alone.
TEST(VerlRun, LoraTrainsAnAdapter) {
  TempFolder folder;
  Process run(quickstart_run(folder, {"actor_rollout_ref.model.lora_rank=4",
                                      "actor_rollout_ref.model.lora_alpha=8",
                                      "actor_rollout_ref.model.target_modules=.*\\.(q|v)_proj",
                                      "actor_rollout_ref.actor.optim.lr=1e-2"}),
              folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const std::string path = test::run_folder(run);
  const auto rows = rows_of(path);
  EXPECT_NEAR(rows.at(1).at("actor/kl_loss").get<double>(), 0, 1e-3);
  EXPECT_GT(rows.at(1).at("actor/grad_norm").get<double>(), 0);
  std::ifstream in(path + "/checkpoints/step_2/adapter_config.json");
  const auto adapter = nlohmann::json::parse(in);
  EXPECT_EQ(adapter.at("target_modules"), (nlohmann::json{"q_proj", "v_proj"}));
  EXPECT_EQ(adapter.at("lora_alpha"), 8);
  expect_verified(path, folder);
}

/// verl's signature, unchanged; its score is the length of the answer, so that groups differ.
TEST(VerlRun, TheUsersOwnFunctionScoresAndLearns) {
  TempFolder folder;
  const fs::path function = folder.path() / "mine.py";
  std::ofstream(function)
      << "def compute_score(data_source, solution_str, ground_truth, extra_info=None, scale=1):\n"
         "    assert data_source == 'openai/gsm8k' and extra_info['split'] == 'train'\n"
         "    return {'score': scale * len(solution_str) / 12, 'truth': float(ground_truth)}\n";
  Process run(quickstart_run(
                  folder, {"custom_reward_function.path=" + function.string(),
                           "+custom_reward_function.reward_kwargs.scale=2",
                           "custom_reward_function.sandbox.mode=rlimits", "trainer.test_freq=-1"}),
              folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const auto rows = rows_of(test::run_folder(run));
  EXPECT_GT(rows.at(1).at("reward/mean").get<double>(), 0);
  EXPECT_NE(rows.at(1).at("actor/pg_loss").get<double>(), 0);
}

/// data.shuffle=False: the first step has the first rows, the second those that follow.
TEST(VerlRun, WithoutShuffleRowsComeAsInTheFiles) {
  TempFolder folder;
  Process run(quickstart_run(folder, {"data.shuffle=False", "data.val_max_samples=3"}), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const std::string path = test::run_folder(run);
  std::map<uint64_t, std::vector<uint64_t>> rows;  // of the groups in order, by step
  size_t held_out = 0;
  for (const auto& t : test::said_by_traj({"export", path, "--jsonl", "-"}, folder).lines()) {
    held_out += t.at("kind") == "val_greedy" && t.at("step") == 0 ? 1 : 0;
    if (t.at("kind") == "train" && t.at("index") == 0) rows[t.at("step")].push_back(t.at("seed"));
  }
  EXPECT_EQ(held_out, 3U);
  EXPECT_EQ(rows.at(1), (std::vector<uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(rows.at(2), (std::vector<uint64_t>{4, 5, 6, 7}));
}

TEST(VerlRun, ALossWithARatioOfTheSequenceAndTheKlInTheRewardTrain) {
  TempFolder folder;
  Process run(quickstart_run(folder, {"actor_rollout_ref.actor.policy_loss.loss_mode=gspo",
                                      "algorithm.use_kl_in_reward=True", "trainer.test_freq=-1"}),
              folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  EXPECT_TRUE(std::isfinite(rows_of(test::run_folder(run)).at(2).at("loss").get<double>()));
}

TEST(VerlRun, WhatIsNotBuiltIsRefusedWithWhereKeyAndRemedy) {
  TempFolder folder;
  const std::string interaction =
      "actor_rollout_ref.rollout.multi_turn.interaction_config_path=users.yaml";
  Process run(quickstart_run(folder, {"actor_rollout_ref.rollout.multi_turn.enable=True",
                                      interaction, "data.train_max_samples=4"}),
              folder);
  EXPECT_EQ(run.wait(), 2);
  for (const std::string& text :
       {"override '" + interaction +
            "': actor_rollout_ref.rollout.multi_turn.interaction_config_path: ",
        std::string(
            "override 'data.train_max_samples=4': data.train_max_samples: is not built in")})
    EXPECT_NE(run.err().find(text), std::string::npos) << run.err();
}

TEST(VerlRun, RowsWithoutAScorerAreRefusedBeforeTheRun) {
  TempFolder folder;
  const fs::path rows = folder.path() / "rows.jsonl";
  std::ofstream file(rows);
  for (int i = 0; i < 8; ++i)
    file << R"({"data_source": "my/own", "prompt": [{"role": "user", "content": "2 + )" << i
         << R"(?"}], "reward_model": {"style": "rule", "ground_truth": "2"}})"
         << "\n";
  file.close();
  Process run(quickstart_run(folder, {"data.train_files=" + rows.string()}), folder);
  EXPECT_EQ(run.wait(), 2);
  EXPECT_NE(run.err().find("rows.jsonl:1: no reward scores data_source 'my/own'"),
            std::string::npos)
      << run.err();
}

}  // namespace
}  // namespace cohort
