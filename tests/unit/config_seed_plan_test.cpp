#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "runtime/config/load.hpp"
#include "runtime/config/roll/not_built.hpp"
#include "tests/support/config_text.hpp"
#include "tests/support/same_settings.hpp"

namespace cohort::config::config_seed_plan_test {
namespace {

/// A seed file as its users have it, without an override.
RunConfig seed(const std::string& name) {
  auto config = load(test::source_path("tests/data/seed_configs/" + name));
  EXPECT_TRUE(config) << config.error().detail;
  return config ? std::move(*config) : RunConfig{};
}

const Note* find(const std::vector<Note>& notes, const std::string& key, const std::string& text) {
  auto it = std::find_if(notes.begin(), notes.end(), [&](const Note& note) {
    return note.key == key && note.text.find(text) != std::string::npos;
  });
  return it == notes.end() ? nullptr : &*it;
}

void expect_round_trip(const RunConfig& config) {
  auto again = load_text(config.resolved_yaml, "resolved.yaml");
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_TRUE(test::same_settings(config, *again));
}

// The excerpt leaves adv_estimator out, so that it means gae: with cards for a critic it runs so.
TEST(SeedPlan, TheEightBillionExampleNeedsOnlyCardsForItsCritic) {
  const std::string path =
      test::source_path("tests/data/seed_configs/qwen3_8b_rlvr_deepspeed.yaml");
  const auto of_critic = [&](const std::vector<std::string>& overrides) {
    auto config = load(path, overrides);
    EXPECT_TRUE(config) << config.error().detail;
    std::vector<std::string> keys;
    for (const Note& note : not_built(*config))
      if (note.key == "adv_estimator" || note.key.starts_with("critic")) keys.push_back(note.key);
    return std::pair(keys, config->derived.critic);
  };
  EXPECT_EQ(of_critic({}).first, std::vector<std::string>{"adv_estimator"});
  const auto [keys, critic] = of_critic({"+critic.device_mapping=list(range(0,8))",
                                         "+critic.strategy_args.strategy_name=deepspeed_train",
                                         "+critic.training_args.gradient_accumulation_steps=4"});
  EXPECT_EQ(keys, std::vector<std::string>{});
  EXPECT_EQ(critic.optimizer_batch, 8 * 4 * 8);  // 256 trajectories of a step: one of its steps
  EXPECT_EQ(critic.optimizer_steps_per_step, 1);
}

// The numbers of docs/config.md, Batch algebra.
TEST(SeedPlan, AgenticFrozenLake) {
  RunConfig c = seed("agentic_frozen_lake_npu.yaml");
  EXPECT_EQ(c.pipeline, Pipeline::agentic);
  EXPECT_EQ(c.derived.trajectories_per_step, 1024);
  EXPECT_EQ(c.derived.groups_per_step, 128);
  EXPECT_EQ(c.derived.train_dp, 4);
  EXPECT_EQ(c.derived.optimizer_batch, 512);
  EXPECT_EQ(c.derived.optimizer_steps_per_step, 2);
  EXPECT_EQ(c.derived.total_optimizer_steps, 2048);
  EXPECT_TRUE(c.derived.recompute_old_log_prob);
  EXPECT_EQ(c.derived.recompute_reason,
            "2 optimizer steps per epoch: the second sees other weights");
  EXPECT_FALSE(c.derived.is_reference_needed);
  EXPECT_TRUE(c.derived.has_group_baseline);
  EXPECT_EQ(c.derived.group_baseline, "reward_normalization mean_std by traj_group_id");
  EXPECT_EQ(c.derived.train_environments, 1024);
  EXPECT_EQ(c.derived.val_environments, 1024);
  EXPECT_EQ(c.derived.train_environment_workers, 64);
  EXPECT_EQ(c.derived.val_environment_workers, 32);
  EXPECT_EQ(c.derived.num_nodes, 1);
  EXPECT_EQ(c.derived.infer_replicas, 4);
  EXPECT_EQ(c.actor_train.strategy_args.zero_stage, 3);
  EXPECT_FALSE(c.actor_train.strategy_args.offload_optimizer);
  EXPECT_EQ(c.actor_infer.strategy_args.gpu_memory_utilization, 0.8);
  EXPECT_EQ(c.actor_infer.strategy_args.load_format, "auto");
  EXPECT_EQ(c.custom_envs.at("FrozenLake").max_tokens_per_step, 64);
  EXPECT_EQ(c.actor_train.system_envs.at("HCCL_OP_EXPANSION_MODE"), "AIV");
  expect_round_trip(c);
}

TEST(SeedPlan, Rlvr8B) {
  RunConfig c = seed("qwen3_8b_rlvr_deepspeed.yaml");
  EXPECT_EQ(c.pipeline, Pipeline::rlvr);
  EXPECT_EQ(c.exp_name, "cohort");  // the excerpt leaves out exp_name and max_steps
  EXPECT_EQ(c.max_steps, 500);
  EXPECT_EQ(c.sequence_length, 10240);
  EXPECT_EQ(c.derived.trajectories_per_step, 256);
  EXPECT_EQ(c.derived.group_size, 8);
  EXPECT_EQ(c.derived.optimizer_batch, 256);
  EXPECT_EQ(c.derived.optimizer_steps_per_step, 1);
  EXPECT_TRUE(c.derived.recompute_old_log_prob);
  EXPECT_EQ(c.derived.recompute_reason, "init_kl_coef 0.2 asks for it");
  EXPECT_TRUE(c.derived.is_reference_needed);
  EXPECT_TRUE(c.derived.is_reference_metric_only);
  EXPECT_FALSE(c.derived.has_group_baseline);
  EXPECT_EQ(c.derived.group_baseline, "none");
  EXPECT_EQ(c.derived.num_nodes, 2);
  EXPECT_EQ(c.rewards.at("math_rule").type, RewardType::math_rule);
  EXPECT_NE(find(c.warnings, "adv_estimator", "left to its default gae"), nullptr);
  EXPECT_NE(find(c.warnings, "init_kl_coef",
                 "0.2 (ROLL's default) builds a reference that only "
                 "draws a chart on 4 cards"),
            nullptr);
  const Note* short_model =
      find(c.warnings, "actor_infer.strategy_args.strategy_config.max_model_len",
           "8000 is below prompt_length 2048 + response_length 8192 = 10240");
  ASSERT_NE(short_model, nullptr);
  EXPECT_TRUE(short_model->where.ends_with("qwen3_8b_rlvr_deepspeed.yaml:73"))
      << short_model->where;
  expect_round_trip(c);
}

TEST(SeedPlan, RlvrOnTwoNodes) {
  RunConfig c = seed("rlvr_npu_multinode.yaml");
  EXPECT_EQ(c.pipeline, Pipeline::rlvr);
  EXPECT_EQ(c.derived.trajectories_per_step, 512);
  EXPECT_EQ(c.derived.optimizer_batch, 256);
  EXPECT_EQ(c.derived.optimizer_steps_per_step, 2);
  EXPECT_TRUE(c.derived.recompute_old_log_prob);
  EXPECT_TRUE(c.derived.is_reference_metric_only);
  EXPECT_EQ(c.derived.group_baseline, "none");
  EXPECT_EQ(c.derived.num_nodes, 2);
  EXPECT_TRUE(c.actor_train.strategy_args.offload_optimizer);
  EXPECT_FALSE(c.actor_train.strategy_args.offload_param);
  using Split = std::vector<std::pair<std::string, int64_t>>;
  EXPECT_EQ(c.derived.domain_prompts, (Split{{"math_rule", 32}, {"code_sandbox", 32}}));
  EXPECT_EQ(c.rewards.at("code_sandbox").type, RewardType::code_sandbox);
  expect_round_trip(c);
}

// What ROLL accepts and ignores, each with its reason.
TEST(SeedPlan, IgnoredKeysAreListed) {
  for (const char* name : {"qwen3_8b_rlvr_deepspeed.yaml", "rlvr_npu_multinode.yaml"}) {
    RunConfig c = seed(name);
    EXPECT_NE(find(c.notes, "actor_train.data_args.dataset_dir", "working directory"), nullptr);
    EXPECT_NE(find(c.notes, "actor_train.data_args.interleave_probs", "reads it nowhere"), nullptr);
    EXPECT_NE(find(c.notes, "actor_infer.infer_batch_size", "reads it nowhere"), nullptr);
    EXPECT_NE(find(c.notes, "rewards.math_rule.infer_batch_size", "reads it nowhere"), nullptr);
    EXPECT_NE(find(c.notes,
                   "actor_train.strategy_args.strategy_config.{train_micro_batch_size_per_gpu, "
                   "bf16, fp16}",
                   "ROLL overwrites it"),
              nullptr);
  }
  RunConfig agentic = seed("agentic_frozen_lake_npu.yaml");
  for (const char* key :
       {"hydra", "logging_dir", "render_save_dir", "system_envs", "checkpoint_config",
        "reward_pretrain", "reference", "actor_train.data_args", "actor_infer.infer_batch_size",
        "actor_train.model_args.attn_implementation", "custom_envs.FrozenLakeThink"})
    EXPECT_NE(find(agentic.notes, key, ""), nullptr) << key;
  for (const Note& note : agentic.notes) {
    EXPECT_FALSE(note.where.empty()) << note.key;
    EXPECT_FALSE(note.text.empty()) << note.key;
  }
}

TEST(SeedPlan, LoadsInUnderAQuarterOfASecond) {
  auto start = std::chrono::steady_clock::now();
  (void)seed("agentic_frozen_lake_npu.yaml");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(250));
}

}  // namespace
}  // namespace cohort::config::config_seed_plan_test
