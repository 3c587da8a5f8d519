#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runtime/config/load.hpp"
#include "runtime/config/schema.hpp"
#include "tests/support/config_text.hpp"

namespace cohort::config {
namespace {

using test::load_small;
using test::source_path;

RunConfig loaded(Expected<RunConfig> result) {
  EXPECT_TRUE(result) << result.error().detail;
  return result ? std::move(*result) : RunConfig{};
}

const Note* find_note(const std::vector<Note>& notes, std::string_view key) {
  auto it =
      std::find_if(notes.begin(), notes.end(), [&](const Note& note) { return note.key == key; });
  return it == notes.end() ? nullptr : &*it;
}

TEST(ConfigLoad, SmallConfigGetsItsNumbers) {
  RunConfig config = loaded(load_small());
  EXPECT_EQ(config.derived.optimizer_batch, 8);
  EXPECT_EQ(config.derived.optimizer_steps_per_step, 2);
  EXPECT_EQ(config.derived.total_optimizer_steps, 8);
  EXPECT_EQ(config.derived.groups_per_step, 4);
  EXPECT_EQ(config.derived.val_groups, 8);
  EXPECT_EQ(config.model.head_dim, 8);
  EXPECT_EQ(config.rewards.count("env_return"), 1u);
  EXPECT_EQ(config.train_env_manager.num_groups_partition, std::vector<int64_t>{4});
  EXPECT_FALSE(config.derived.is_reference_needed);
  EXPECT_TRUE(config.warnings.empty()) << config.warnings[0].key << config.warnings[0].text;
}

TEST(ConfigLoad, ShippedConfigIsClean) {
  RunConfig config = loaded(load(source_path("configs/frozen_lake.yaml")));
  EXPECT_TRUE(config.warnings.empty()) << config.warnings[0].key << ": " << config.warnings[0].text;
  EXPECT_TRUE(config.notes.empty()) << config.notes[0].key << ": " << config.notes[0].text;
  EXPECT_EQ(config.derived.groups_per_step * config.train_env_manager.group_size,
            config.rollout_batch_size);
  EXPECT_EQ(config.val_batch_size, 256);
  EXPECT_EQ(config.actor_train.device_mapping, std::vector<uint32_t>{0});
  EXPECT_EQ(config.actor_infer.device_mapping, std::vector<uint32_t>{1});
}

TEST(ConfigLoad, OverridesWin) {
  RunConfig config = loaded(
      load_small({"seed=7", "output_dir=/tmp/out", "actor_train.training_args.learning_rate=3e-4",
                  "device=x", "~device", "custom_envs.Lake.env_config.size=8",
                  "cards.memory_bytes=1.5GiB", "advantage_clip=0.2"}));
  EXPECT_EQ(config.seed, 7);
  EXPECT_EQ(config.output_dir, "/tmp/out");
  EXPECT_DOUBLE_EQ(config.actor_train.training_args.learning_rate, 3e-4);
  EXPECT_EQ(config.custom_envs.at("Lake").env_config.size, 8);
  EXPECT_EQ(config.cards.memory_bytes, uint64_t{3} << 29);
  EXPECT_EQ(config.advantage_clip, 0.2);
}

TEST(ConfigLoad, ResumeIsAFlagOrAPath) {
  EXPECT_FALSE(loaded(load_small()).resume_from_checkpoint.is_enabled);
  RunConfig newest = loaded(load_small({"resume_from_checkpoint=true"}));
  EXPECT_TRUE(newest.resume_from_checkpoint.is_enabled);
  EXPECT_EQ(newest.resume_from_checkpoint.path, "");
  EXPECT_EQ(loaded(load_small({"resume_from_checkpoint=/tmp"})).resume_from_checkpoint.path,
            "/tmp");
}

TEST(ConfigLoad, LengthsFollowRollsRules) {
  RunConfig config =
      loaded(load_small({"~sequence_length", "response_length=100", "prompt_length=28"}));
  EXPECT_EQ(config.sequence_length, 128);
  config = loaded(load_small({"response_length=100"}));
  EXPECT_EQ(config.sequence_length, 128);
  ASSERT_NE(find_note(config.warnings, "response_length"), nullptr);
}

TEST(ConfigLoad, NegativeBatchMeansAllEnvironments) {
  RunConfig config = loaded(load_small({"rollout_batch_size=-1", "val_batch_size=-1"}));
  EXPECT_EQ(config.rollout_batch_size, 16);
  EXPECT_EQ(config.val_batch_size, 8);
}

TEST(ConfigLoad, WarnsAboutInertSettings) {
  struct Case {
    std::vector<std::string> overrides;
    std::string key;
    std::string text;
  };
  const std::vector<Case> cases = {
      {{"init_kl_coef=0.1", "reference.device_mapping=[2]"}, "init_kl_coef", "only draws a chart"},
      {{"~init_kl_coef", "reference.device_mapping=[2]"}, "init_kl_coef", "0.2 (ROLL's default)"},
      {{"kl_loss_coef=0.1"}, "kl_loss_coef", "no effect without use_kl_loss"},
      {{"pg_clip_high=0.3"}, "pg_clip_high", "no effect without use_pg_clip_range"},
      {{"~reward_normalization"}, "reward_normalization", "there is no baseline"},
      {{"train_env_manager.num_env_groups=8"}, "rollout_batch_size", "16 of the 32 environments"},
      {{"actor_train.training_args.warmup_steps=9"},
       "actor_train.training_args.warmup_steps",
       "9 is more than the run's 8 optimizer steps"},
      {{"custom_envs.Lake.max_steps=64"},
       "custom_envs.Lake.max_steps",
       "64 turns of 4 answer tokens"},
      {{"eval_steps=5"}, "eval_steps", "more than max_steps 4"},
      {{"target_kl=0.1"}, "target_kl", "without add_token_level_kl"},
  };
  for (const Case& x : cases) {
    auto result = load_small(x.overrides);
    ASSERT_TRUE(result) << x.key << result.error().detail;
    const Note* note = find_note(result->warnings, x.key);
    ASSERT_NE(note, nullptr) << x.key;
    EXPECT_NE(note->text.find(x.text), std::string::npos) << note->text;
  }
}

TEST(ConfigLoad, ListsKeysWithoutEffect) {
  RunConfig config = loaded(load_small(
      {"logging_dir=./logs", "actor_train.model_args.attn_implementation=fa2",
       "actor_infer.strategy_args={strategy_name: vllm, strategy_config: {block_size: 16}}"}));
  ASSERT_EQ(config.notes.size(), 3u);
  EXPECT_EQ(config.notes[0].key, "logging_dir");
  EXPECT_EQ(config.notes[0].where, "override 'logging_dir=./logs'");
  EXPECT_NE(find_note(config.notes, "actor_infer.strategy_args.strategy_config"), nullptr);
  EXPECT_NE(config.resolved_yaml.find("# no effect: logging_dir ("), std::string::npos);
}

TEST(ConfigLoad, SeedConfigKeysAreAllKnown) {
  // given the agentic seed, when what this binary lacks is overridden, then nothing is unknown
  auto result =
      load(source_path("tests/golden/data/config/agentic_frozen_lake_npu.yaml"),
           {"val_env_manager.tags=[FrozenLake]", "val_env_manager.num_groups_partition=[1024]",
            "pretrain=~", "model.hidden_size=64"});
  RunConfig config = loaded(std::move(result));
  EXPECT_EQ(config.derived.optimizer_batch, 512);
  EXPECT_EQ(config.derived.optimizer_steps_per_step, 2);
  EXPECT_EQ(config.custom_envs.at("FrozenLake").max_tokens_per_step, 64);
  EXPECT_EQ(config.actor_infer.device_mapping, (std::vector<uint32_t>{4, 5, 6, 7}));
  for (const char* key :
       {"hydra", "logging_dir", "render_save_dir", "system_envs", "checkpoint_config",
        "reward_pretrain", "reference", "actor_train.data_args",
        "actor_train.model_args.attn_implementation", "custom_envs.SimpleSokoban"})
    EXPECT_NE(find_note(config.notes, key), nullptr) << key;
}

TEST(ConfigLoad, DefinitionsForInterpolationNeedNoSchema) {
  std::string text = std::string(test::k_small_config) + "my_rate: 2e-5\n";
  auto result = load_text(text, "t.yaml", {"actor_train.training_args.learning_rate=${my_rate}"});
  EXPECT_DOUBLE_EQ(loaded(std::move(result)).actor_train.training_args.learning_rate, 2e-5);
}

TEST(ConfigLoad, ResolvedTextIsComplete) {
  RunConfig config = loaded(load_small());
  RunConfig again = loaded(load_text(config.resolved_yaml, "resolved.yaml"));
  EXPECT_TRUE(same_settings(config, again));
  EXPECT_EQ(config.resolved_yaml, again.resolved_yaml);
}

}  // namespace
}  // namespace cohort::config
