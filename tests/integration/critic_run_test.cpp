// PPO with a critic as a user runs it: on a card of its own and on the trainer's, over processes,
// after kills and resumes; and what is refused.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/recovery.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

using test::Process;
using test::TempFolder;

constexpr const char* k_own_card = "critic.device_mapping=list([2])";
constexpr const char* k_shared_card = "critic.device_mapping=list([0])";

/// A tiny run with a critic on the given cards, of three.
std::vector<std::string> ppo_run(const TempFolder& folder, const std::string& cards,
                                 const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = {
      "adv_estimator=gae",
      "whiten_advantages=true",
      "reward_normalization.method=identity",
      "num_gpus_per_node=3",
      "actor_train.training_args.lr_scheduler_type=constant",
      cards,
      "critic.strategy_args.strategy_name=deepspeed_train",
      "critic.training_args.learning_rate=3.0e-3",
      "critic.training_args.lr_scheduler_type=constant",
      "critic.training_args.per_device_train_batch_size=4",
      "critic.training_args.gradient_accumulation_steps=4",
  };
  overrides.insert(overrides.end(), more.begin(), more.end());
  return test::tiny_run(folder, overrides);
}

/// The parameters of policy and critic after each step.
std::map<uint64_t, std::pair<std::string, std::string>> both_hashes(const std::string& run) {
  std::map<uint64_t, std::pair<std::string, std::string>> found;
  for (const auto& row : test::metric_rows(run))
    found[row.at("step").get<uint64_t>()] = {row.at("param_hash").get<std::string>(),
                                             row.value("critic/param_hash", "")};
  return found;
}

std::map<uint64_t, std::pair<std::string, std::string>> hashes_of(
    const TempFolder& folder, const std::vector<std::string>& command) {
  Process run(command, folder);
  EXPECT_EQ(run.wait(), 0) << run.err() << run.out();
  return both_hashes(test::run_folder(run));
}

TEST(Critic, LearnsBesideThePolicyAndSaysSo) {
  TempFolder folder;
  Process run(ppo_run(folder, k_own_card, {"max_steps=8"}), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const std::string path = test::run_folder(run);
  const auto rows = test::metric_rows(path);
  ASSERT_EQ(rows.size(), 9U);
  for (size_t i = 1; i < rows.size(); ++i)
    for (const char* key :
         {"critic/loss", "critic/vf_loss", "critic/vf_explained_var", "critic/values/mean",
          "critic/returns/mean", "critic/vpred_mean", "critic/lr", "critic/grad_norm",
          "critic/param_hash", "critic/advantages/mean", "actor/pg_loss", "time/values_s"})
      EXPECT_TRUE(rows[i].contains(key)) << key << " in " << rows[i].dump();
  EXPECT_EQ(rows[1].at("critic/values/max"), 0) << "a value head begins at zero";
  EXPECT_NE(rows[8].at("critic/values/max"), 0);
  EXPECT_NE(rows[1].at("critic/param_hash"), rows[8].at("critic/param_hash"));
  for (const char* name : {"model.safetensors", "state.json", "train_state.json", "config.json"})
    EXPECT_TRUE(std::filesystem::exists(path + "/checkpoints/step_8/critic/" + name)) << name;
  // The stream's last record of a trajectory has the values that its advantages came from.
  Process exported({test::binary("traj"), "export", path, "--jsonl", "-", "--step", "8"}, folder);
  ASSERT_EQ(exported.wait(), 0) << exported.err();
  std::istringstream lines(exported.out());
  size_t valued = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto t = nlohmann::json::parse(line);
    if (t.at("kind") == "train" && t.at("values").size() == t.at("tokens").size()) ++valued;
  }
  EXPECT_EQ(valued, 32U);
}

// The engine takes as many bytes on the card as the plan says.
TEST(Critic, TakesTheBytesThatThePlanGivesIt) {
  TempFolder folder;
  Process run(ppo_run(folder, k_shared_card, {"max_steps=1", "eval_steps=0"}), folder);
  ASSERT_EQ(run.wait(), 0) << run.err() << run.out();
  const std::string path = test::run_folder(run);
  const auto plan = nlohmann::json::parse(test::slurp(path + "/plan.json"));
  nlohmann::json planned;
  for (const auto& role : plan.at("roles"))
    if (role["role"] == "critic") planned = role["bytes_per_card"];
  Process records({test::binary("traj"), "records", path, "--type", "phase"}, folder);
  ASSERT_EQ(records.wait(), 0) << records.err();
  std::istringstream lines(records.out());
  std::map<std::string, int> seen;
  for (std::string line; std::getline(lines, line);) {
    const auto data = nlohmann::json::parse(line)["data"];
    for (const auto& move : data["cards"]) {
      if (data["phase"] != "update" || move["role"] != "critic" || move["verb"] != "onload")
        continue;
      const std::string object = move["object"];
      EXPECT_EQ(move["bytes"], planned[object]) << object;
      ++seen[object];
    }
  }
  EXPECT_EQ(seen.size(), 3U);
}

TEST(Critic, NoLayoutOfCardsAndProcessesChangesAHash) {
  TempFolder folder;
  const auto expected = hashes_of(folder, ppo_run(folder, k_own_card));
  ASSERT_EQ(expected.size(), 5U);
  EXPECT_EQ(hashes_of(folder, ppo_run(folder, k_shared_card)), expected);
  EXPECT_EQ(hashes_of(folder, test::in_processes(ppo_run(folder, k_own_card), 3)), expected);
  // Two cards for the critic are one with half of the accumulation.
  EXPECT_EQ(hashes_of(folder,
                      ppo_run(folder, "critic.device_mapping=list([0,2])",
                              {"critic.training_args.gradient_accumulation_steps=2",
                               "critic.strategy_args.strategy_config.zero_optimization.stage=2"})),
            expected);
}

TEST(Critic, GoesOnAfterAKillOfItsProcessWithTheSameHashes) {
  TempFolder whole;
  const auto expected = hashes_of(whole, ppo_run(whole, k_own_card));
  for (const char* point : {"critic.values:2:kill", "critic.update:3:kill"}) {
    TempFolder folder;
    auto command = test::in_processes(ppo_run(folder, k_own_card), 3);
    command.insert(command.begin() + 2, {"--restarts", "1"});
    Process run(test::with_failpoint(command, point, folder.path() / "claim"), folder);
    ASSERT_EQ(run.wait(), 0) << point << run.err() << run.out();
    EXPECT_TRUE(test::claimed_at(folder.path() / "claim")) << point;
    EXPECT_EQ(both_hashes(test::run_folder(run)), expected) << point;
  }
}

TEST(Critic, ResumesToTheSameBits) {
  TempFolder whole, folder;
  const auto expected = hashes_of(whole, ppo_run(whole, k_own_card));
  Process first(ppo_run(folder, k_own_card, {"max_steps=2", "eval_steps=2"}), folder);
  ASSERT_EQ(first.wait(), 0) << first.err();
  const auto resumed =
      hashes_of(folder, ppo_run(folder, k_own_card, {"resume_from_checkpoint=true"}));
  EXPECT_EQ(resumed, expected);
}

TEST(Critic, LearnsAloneInItsWarmUp) {
  TempFolder folder;
  const auto found = hashes_of(folder, ppo_run(folder, k_own_card, {"critic_warmup=2"}));
  ASSERT_EQ(found.size(), 5U);
  EXPECT_EQ(found.at(1).first, found.at(0).first);
  EXPECT_EQ(found.at(2).first, found.at(0).first);
  EXPECT_NE(found.at(3).first, found.at(2).first);
  EXPECT_NE(found.at(2).second, found.at(1).second);
}

TEST(Critic, StartsFromAFolder) {
  TempFolder folder;
  Process first(ppo_run(folder, k_own_card, {"max_steps=2"}), folder);
  ASSERT_EQ(first.wait(), 0) << first.err();
  const std::string checkpoint = test::run_folder(first) + "/checkpoints/step_2";
  // A critic's folder is a classifier's: its values go on. A policy's: they begin at 0.
  for (const bool is_critic : {true, false}) {
    TempFolder other;
    Process run(ppo_run(other, k_own_card,
                        {"max_steps=1", "critic.model_args.model_name_or_path=" + checkpoint +
                                            (is_critic ? "/critic" : "")}),
                other);
    ASSERT_EQ(run.wait(), 0) << run.err();
    const auto rows = test::metric_rows(test::run_folder(run));
    EXPECT_EQ(rows.at(1).at("critic/values/max") == 0, !is_critic) << checkpoint;
  }
}

// 32 trajectories in optimizer batches of at most 12: three of 10 or 11.
TEST(Critic, ItsBatchesNeedNotDivideTheStep) {
  TempFolder folder;
  const auto found = hashes_of(
      folder, ppo_run(folder, k_own_card,
                      {"critic.training_args.gradient_accumulation_steps=3", "max_steps=2"}));
  ASSERT_EQ(found.size(), 3U);
  EXPECT_NE(found.at(2).second, found.at(1).second);
}

TEST(Critic, WhatCannotRunIsRefused) {
  TempFolder folder;
  const auto refused = [&](const std::vector<std::string>& command, const std::string& why) {
    Process run(command, folder);
    EXPECT_EQ(run.wait(), 2) << run.out();
    EXPECT_NE(run.err().find(why), std::string::npos) << run.err();
  };
  refused(test::tiny_run(folder, {"adv_estimator=gae"}), "needs a critic: give it cards");
  refused(ppo_run(folder, k_own_card, {"critic.model_args.model_name_or_path=/nowhere"}),
          "critic.model_args.model_name_or_path: no folder '/nowhere'");
  refused(ppo_run(folder, "critic.device_mapping=list([1])"), "critic");
  refused(ppo_run(folder, k_own_card, {"critic.model_args.lora_target=all-linear"}),
          "critic.model_args.lora_target");
}

// A checkpoint without a critic's part: said, not guessed.
TEST(Critic, ACheckpointWithoutACriticIsNamed) {
  TempFolder folder;
  Process first(test::tiny_run(folder, {"max_steps=1"}), folder);
  ASSERT_EQ(first.wait(), 0) << first.err();
  Process run(ppo_run(folder, k_own_card, {"resume_from_checkpoint=true"}), folder);
  EXPECT_EQ(run.wait(), 1) << run.out();
  EXPECT_NE(run.err().find("no critic is in this checkpoint"), std::string::npos) << run.err();
}

}  // namespace
}  // namespace cohort
