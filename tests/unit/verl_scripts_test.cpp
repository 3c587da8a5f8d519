// What verl's own example scripts carry: options of their launcher, older names, and settings that
// most of them have.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runtime/config/roll/not_built.hpp"
#include "runtime/config/train_groups.hpp"
#include "tests/support/same_settings.hpp"
#include "tests/support/verl_command.hpp"

namespace cohort::config::verl_scripts_test {
namespace {

using test::quickstart;
using test::warning_of;

const std::string k_actor = "actor_rollout_ref.actor.";
const std::string k_rollout = "actor_rollout_ref.rollout.";
const std::string k_model = "actor_rollout_ref.model.";

RunConfig loaded(const std::vector<std::string>& args) {
  auto run = load_verl(args);
  EXPECT_TRUE(run) << (run ? "" : run.error().detail);
  return run ? *run : RunConfig{};
}

std::string note_of(const RunConfig& run, const std::string& key) {
  const auto note = std::ranges::find(run.notes, key, &Note::key);
  return note == run.notes.end() ? "" : note->text;
}

std::vector<std::string> launched(const std::vector<std::string>& options,
                                  const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = quickstart(more);
  words.insert(words.begin(), options.begin(), options.end());
  return words;
}

TEST(VerlScripts, TheirConfigFolderStandsForTheDefaults) {
  for (const char* name : {"ppo_megatron_trainer.yaml", "ppo_megatron_trainer",
                           "'ppo_megatron_trainer.yaml'", "\"ppo_megatron_trainer\""}) {
    const RunConfig run =
        loaded(launched({"--config-path=config", std::string("--config-name=") + name}));
    EXPECT_EQ(run.actor_train.strategy_args.strategy, Strategy::megatron_train) << name;
    EXPECT_EQ(note_of(run, "--config-path"),
              "config/ppo_megatron_trainer.yaml: no such file; its name is that of a config of "
              "verl's, whose values are this dialect's defaults");
  }
  const RunConfig plain = loaded(launched({"--config-path", "./config"}));
  EXPECT_EQ(plain.actor_train.strategy_args.strategy, Strategy::fsdp2_train);
  const auto other = load_verl(launched({"--config-path=config", "--config-name=mine"}));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().detail, "config/mine.yaml: no such file");
  const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                       ("cohort_verl_scripts_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "ppo_megatron_trainer.yaml") << "data: {max_prompt_length: 99}\n";
  const RunConfig own = loaded(
      {"--config-path=" + folder.string(), "--config-name=ppo_megatron_trainer",
       "algorithm.adv_estimator=grpo", "data.train_rows=2048", k_model + "path=Qwen/Qwen3-4B",
       k_actor + "use_dynamic_bsz=True", k_rollout + "name=vllm"});
  EXPECT_EQ(own.prompt_length, 99) << "a file that is there is read";
  std::filesystem::remove_all(folder);
}

TEST(VerlScripts, ChunkedPrefillIsVllms) {
  const std::vector<std::string> small = {k_rollout + "max_num_batched_tokens=256"};
  EXPECT_FALSE(load_verl(quickstart(small)));
  for (const char* engine : {"sglang", "hf"})
    EXPECT_TRUE(load_verl(quickstart({small[0], k_rollout + "name=" + engine}))) << engine;
}

TEST(VerlScripts, WarmUpIsThatOfTheTrainer) {
  const std::string optim = k_actor + "optim.";
  const RunConfig counted = loaded(quickstart({optim + "lr_warmup_steps=10"}));
  EXPECT_TRUE(not_built(counted).empty());
  EXPECT_EQ(counted.derived.warmup_steps, 20) << "two optimizer steps an RL step";
  EXPECT_EQ(counted.actor_train.training_args.lr_scheduler_type,
            SchedulerType::constant_with_warmup);
  EXPECT_EQ(warning_of(counted, optim + "lr_warmup_steps"),
            "10 RL steps, here 20 optimizer steps: each raises the rate, and the first has a share "
            "of it; in verl the rate rises once per RL step, and is 0 in the first");
  const RunConfig share = loaded(quickstart({optim + "lr_warmup_steps_ratio=0.1"}));
  EXPECT_TRUE(not_built(share).empty());
  EXPECT_EQ(share.derived.warmup_steps, 10) << "int(0.1 x 58 steps) x 2";
  EXPECT_NE(warning_of(share, optim + "lr_warmup_steps_ratio").find("5 RL steps"),
            std::string::npos);
  const RunConfig none =
      loaded(quickstart({optim + "lr_warmup_steps=0", optim + "lr_warmup_steps_ratio=0.1"}));
  EXPECT_EQ(none.derived.warmup_steps, 0) << "verl: only a negative number asks the ratio";
  const RunConfig critic =
      loaded(quickstart({"algorithm.adv_estimator=gae", "critic.ppo_micro_batch_size_per_gpu=20",
                         "critic.optim.lr_warmup_steps=3", "critic.ppo_epochs=2"}));
  EXPECT_TRUE(not_built(critic).empty());
  EXPECT_EQ(critic.derived.critic.warmup_steps, 12);
  EXPECT_NE(warning_of(critic, "critic.optim.lr_warmup_steps").find("here 12 optimizer steps"),
            std::string::npos)
      << warning_of(critic, "critic.optim.lr_warmup_steps");
}

TEST(VerlScripts, ValidationSamplesAsValKwargsSay) {
  const std::string val = k_rollout + "val_kwargs.";
  const RunConfig run = loaded(quickstart(
      {val + "do_sample=True", val + "temperature=1.0", val + "top_p=0.7", val + "n=4"}));
  EXPECT_TRUE(not_built(run).empty());
  EXPECT_EQ(run.rlvr.val_n_sample, 4);
  EXPECT_EQ(held_out_sampling(run).temperature, 1.0);
  EXPECT_EQ(held_out_sampling(run).top_p, 0.7);
  EXPECT_EQ(run.actor_infer.generating_args.top_p, 1.0);
  EXPECT_EQ(held_out_sampling(loaded(quickstart())).temperature, 0) << "verl's default is greedy";
}

TEST(VerlScripts, KeysThatVerlHasDroppedHaveNoEffect) {
  const RunConfig run = loaded(
      quickstart({k_actor + "fsdp_config.grad_offload=False", k_actor + "profile_ranks=[0,1]",
                  k_actor + "profile_ranks_all=False", k_actor + "profile_discrete=True",
                  "actor_rollout_ref.ref.profile_ranks=[0]", k_rollout + "profile_ranks=[0]",
                  "critic.profile_ranks=[0]", k_rollout + "mode=sync"}));
  EXPECT_TRUE(not_built(run).empty());
  for (const std::string& key :
       {k_actor + "fsdp_config.grad_offload", k_actor + "profile_ranks",
        k_actor + "profile_ranks_all", k_actor + "profile_discrete",
        std::string("actor_rollout_ref.ref.profile_ranks"), k_rollout + "profile_ranks",
        std::string("critic.profile_ranks"), k_rollout + "mode"})
    EXPECT_NE(note_of(run, key), "") << key;
}

TEST(VerlScripts, OlderNamesMeanTheNewerOnes) {
  const RunConfig gpg = loaded(quickstart({k_actor + "use_gpg_loss=True"}));
  EXPECT_EQ(gpg.actor_train.pg_variant,
            loaded(quickstart({k_actor + "policy_loss.loss_mode=gpg"})).actor_train.pg_variant);
  EXPECT_NE(gpg.actor_train.pg_variant, PolicyLossKind::ppo);
  EXPECT_NE(warning_of(gpg, k_actor + "use_gpg_loss"), "");
  const auto two = load_verl(
      quickstart({k_actor + "use_gpg_loss=True", k_actor + "policy_loss.loss_mode=gspo"}));
  ASSERT_FALSE(two);
  EXPECT_NE(two.error().detail.find("use_gpg_loss: not together with policy_loss.loss_mode gspo"),
            std::string::npos);
  const RunConfig sglang = loaded(quickstart({k_rollout + "name=sglang_async"}));
  EXPECT_EQ(sglang.actor_infer.strategy_args.strategy, Strategy::sglang);
  EXPECT_EQ(sglang.actor_infer.strategy_args.strategy_name, "sglang");
}

TEST(VerlScripts, ExcludedModulesGetNoAdapter) {
  const std::vector<std::string> lora = {k_model + "lora_rank=8"};
  const RunConfig by_name = loaded(quickstart({lora[0], k_model + "exclude_modules=[q_proj,a.b]"}));
  EXPECT_TRUE(not_built(by_name).empty());
  EXPECT_EQ(by_name.actor_train.model_args.lora_target,
            (std::vector<std::string>{R"((?!(?:(?:.*\.)?(?:q_proj|a\.b))\z)(?:.*))"}));
  const RunConfig by_pattern =
      loaded(quickstart({lora[0], k_model + "target_modules=[q_proj,v_proj]",
                         k_model + "exclude_modules='.*visual.*'"}));
  EXPECT_EQ(by_pattern.actor_train.model_args.lora_target,
            (std::vector<std::string>{R"((?!(?:.*visual.*)\z)(?:(?:.*\.)?(?:q_proj|v_proj)))"}));
  EXPECT_EQ(loaded(quickstart(lora)).actor_train.model_args.lora_target,
            (std::vector<std::string>{"all-linear"}));
}

TEST(VerlScripts, MegatronsLoraIsReadByItsOwnNames) {
  const std::vector<std::string> words = {k_model + "lora.rank=16", k_model + "lora.alpha=64",
                                          k_model + "lora.target_modules=[linear_qkv,linear_fc2]",
                                          k_model + "lora.dropout=0.0"};
  const RunConfig run = loaded(launched({"--config-name=ppo_megatron_trainer"}, words));
  EXPECT_EQ(run.actor_train.model_args.lora_rank, 16);
  EXPECT_EQ(run.actor_train.model_args.lora_alpha, 64);
  EXPECT_EQ(run.actor_train.model_args.lora_target,
            (std::vector<std::string>{"q_proj,k_proj,v_proj", "down_proj"}));
  EXPECT_FALSE(run.reference.is_configured) << "the policy without its adapter";
  const auto again = load_text(run.resolved_yaml, "/run/config.yaml");
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_TRUE(test::same_settings(run, *again));
  const RunConfig fsdp = loaded(quickstart(words));
  EXPECT_EQ(fsdp.actor_train.model_args.lora_rank, 0);
  EXPECT_EQ(warning_of(fsdp, k_model + "lora.rank"),
            "has no effect: strategy fsdp reads model.lora_rank");
  const auto odd = load_verl(launched({"--config-name=ppo_megatron_trainer"},
                                      {words[0], k_model + "lora.target_modules=[router]"}));
  ASSERT_FALSE(odd);
  EXPECT_NE(odd.error().detail.find("'router' is no layer that takes an adapter"),
            std::string::npos);
}

TEST(VerlScripts, LossesOnTheRouterAreNotSilent) {
  const std::string key = k_actor + "megatron.override_transformer_config.moe_aux_loss_coeff";
  const auto refused = [&](const char* value) {
    return not_built(
        loaded(launched({"--config-name=ppo_megatron_trainer"}, {"+" + key + "=" + value})));
  };
  ASSERT_EQ(refused("0.01").size(), 1U);
  EXPECT_EQ(refused("0.01")[0].key, key);
  EXPECT_TRUE(refused("0.0").empty());
}

TEST(VerlScripts, RunFoldersStayWhereTheyBelong) {
  for (const char* word : {"trainer.experiment_name=../x", "trainer.project_name=/etc"}) {
    const auto run = load_verl(quickstart({word}));
    ASSERT_FALSE(run) << word;
    EXPECT_NE(run.error().detail.find("leaves the folder of the runs"), std::string::npos);
  }
}

}  // namespace
}  // namespace cohort::config::verl_scripts_test
