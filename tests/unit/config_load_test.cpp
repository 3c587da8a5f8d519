#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "runtime/base/read_file.hpp"
#include "runtime/config/load.hpp"
#include "runtime/config/roll/not_built.hpp"
#include "runtime/config/roll/roll_schema.hpp"
#include "tests/support/config_text.hpp"
#include "tests/support/same_settings.hpp"

namespace cohort::config::config_load_test {
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

// decisions/0001: a key says it, else they are those recorded at generation.
TEST(ConfigLoad, HalfPrecisionComputesInSingle) {
  auto half =
      load_small({"actor_train.model_args.dtype=fp16", "actor_infer.model_args.dtype=fp16"});
  ASSERT_TRUE(half) << half.error().detail;
  EXPECT_TRUE(not_built(*half).empty());
  const Note* warning = find_note(half->warnings, "actor_train.model_args.dtype");
  ASSERT_NE(warning, nullptr);
  EXPECT_NE(warning->text.find("computes in fp32"), std::string::npos);
  EXPECT_NE(find_note(half->notes, "actor_infer.model_args.dtype"), nullptr);
}

TEST(ConfigLoad, OldLogProbsAreWhatAKeyNames) {
  const std::string never = "force_disable_old_logprobs_recompute=true";
  const std::string one_batch = "actor_train.training_args.gradient_accumulation_steps=4";
  EXPECT_EQ(loaded(load_small()).derived.old_log_probs, OldLogProbs::behavior);
  RunConfig asked = loaded(load_small({"enable_old_logprobs_recompute=true"}));
  EXPECT_EQ(asked.derived.old_log_probs, OldLogProbs::recomputed);
  RunConfig on_policy =
      loaded(load_small({never, "enable_old_logprobs_recompute=true", one_batch}));
  EXPECT_EQ(on_policy.derived.optimizer_steps_per_step, 1);
  EXPECT_EQ(on_policy.derived.old_log_probs, OldLogProbs::first_pass);
  auto refused = load_small({never});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("force_disable_old_logprobs_recompute: true takes the old "
                                        "log-probabilities from the update's own forward pass, "
                                        "which is right only on-policy"),
            std::string::npos)
      << refused.error().detail;
}

TEST(ConfigLoad, SmallConfigGetsItsNumbers) {
  RunConfig config = loaded(load_small());
  EXPECT_EQ(config.derived.optimizer_batch, 8);
  EXPECT_EQ(config.derived.optimizer_steps_per_step, 2);
  EXPECT_EQ(config.derived.total_optimizer_steps, 8);
  EXPECT_EQ(config.derived.groups_per_step, 4);
  EXPECT_EQ(config.derived.val_groups, 8);
  EXPECT_EQ(config.model.shape.head_dim, 8);
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
      {{"~adv_estimator"}, "adv_estimator", "left to its default gae, which needs a critic"},
      {{"adv_estimator=gae"}, "adv_estimator", "gae needs a critic"},
      {{"train_env_manager.group_size=1"},
       "train_env_manager.group_size",
       "makes every advantage 0"},
      {{"actor_infer.strategy_args={strategy_name: vllm, strategy_config: {max_model_len: 100}}"},
       "actor_infer.strategy_args.strategy_config.max_model_len",
       "100 is below sequence_length 128"},
      {{"actor_train.strategy_args.strategy_name=megatron_train"},
       "actor_train.strategy_args.strategy_name",
       "megatron_train: not built in; the built-in engine is used"},
      {{"actor_infer.strategy_args.strategy_name=hf_infer"},
       "actor_infer.strategy_args.strategy_name",
       "ROLL takes vllm or sglang here only"},
      {{"num_gpus_per_node=4"}, "num_gpus_per_node", "ROLL overwrites it"},
      {{"num_nodes=3"}, "num_nodes", "3 has no effect"},
      {{"actor_train.device_mapping=[0, 2]",
        "actor_train.training_args.gradient_accumulation_steps=1"},
       "actor_train.device_mapping",
       "asserts contiguous ids"},
      {{"reference.device_mapping=[2, 3]"},
       "reference.device_mapping",
       "cards 2, 3 idle: no reference is built"},
      {{"custom_envs.Lake.env_manager_cls=roll.x.StepEnvManager",
        "custom_envs.Lake.agent_template='{current_observation}'"},
       "custom_envs.Lake.env_manager_cls",
       "the optimizer batch counts trajectories"},
      {{"rollout_batch_size=20"},
       "actor_train.training_args.lr_scheduler_type",
       "= 10 optimizer steps and ends early; here it has the run's 12"},
      {{"rollout_batch_size=20"},
       "rollout_batch_size",
       "20 trajectories are no multiple of 8 = per_device_train_batch_size 4 x "
       "gradient_accumulation_steps 2 x 1 train card: a step makes 3 optimizer steps of 7 or one "
       "less, and no trajectory is copied or dropped (ROLL's batch_adjust_mode copy would)"},
      {{"num_return_sequences_in_group=8"}, "num_return_sequences_in_group", "no effect"},
      {{"norm_mean_type=group"}, "norm_mean_type", "use reward_normalization"},
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
       "actor_infer.strategy_args={strategy_name: vllm, strategy_config: {swap_space: 4, dtype: "
       "auto}}"}));
  ASSERT_EQ(config.notes.size(), 3u);
  EXPECT_EQ(config.notes[0].key, "logging_dir");
  EXPECT_EQ(config.notes[0].where, "override 'logging_dir=./logs'");
  EXPECT_NE(
      find_note(config.notes, "actor_infer.strategy_args.strategy_config.{dtype, swap_space}"),
      nullptr);
  EXPECT_NE(config.resolved_yaml.find("# no effect: logging_dir ("), std::string::npos);
}

TEST(ConfigLoad, DrGrpoBringsItsBaselineAndItsAggregation) {
  RunConfig config = loaded(load_small({"adv_estimator=dr_grpo"}));
  EXPECT_EQ(config.loss_agg_mode, LossAgg::seq_mean_token_constant);
  EXPECT_TRUE(config.derived.has_group_baseline);
  EXPECT_TRUE(config.derived.group_baseline.starts_with("dr_grpo: r - mean"));
  EXPECT_EQ(find_note(config.warnings, "adv_estimator"), nullptr) << "it runs";
  const Note* passed_over = find_note(config.warnings, "reward_normalization.method");
  ASSERT_NE(passed_over, nullptr);
  EXPECT_NE(passed_over->text.find("dr_grpo sets the baseline itself"), std::string::npos);
  config = loaded(load_small({"adv_estimator=dr_grpo", "loss_agg_mode=token-mean"}));
  EXPECT_EQ(config.loss_agg_mode, LossAgg::token_mean) << "what the config says wins";
  EXPECT_NE(find_note(config.warnings, "loss_agg_mode"), nullptr);
  config = loaded(load_small({"loss_scale_factor=64"}));
  EXPECT_NE(find_note(config.warnings, "loss_scale_factor"), nullptr);
}

// docs/async.md
TEST(ConfigLoad, AsyncIsCompletedAndCheckedAcrossKeys) {
  const auto asked = [](std::vector<std::string> overrides) {
    return load(source_path("configs/frozen_lake.yaml"), overrides);
  };
  const RunConfig turns =
      loaded(load_small({"async_generation_ratio=1", "placement.mode=timeshare"}));
  EXPECT_EQ(turns.async.mode, AsyncMode::sync);
  EXPECT_EQ(turns.derived.steps_ahead, 0);
  EXPECT_NE(find_note(turns.warnings, "async_generation_ratio"), nullptr);
  EXPECT_TRUE(not_built(turns).empty());
  auto ratio = asked({"async_generation_ratio=1.5"});
  ASSERT_TRUE(ratio) << ratio.error().detail;
  EXPECT_EQ(ratio->async.mode, AsyncMode::fully_async);
  EXPECT_EQ(ratio->async.depth, 1.5);
  EXPECT_EQ(ratio->async.bound, 2);
  EXPECT_EQ(ratio->derived.steps_ahead, 2);
  EXPECT_EQ(asked({})->derived.steps_ahead, 0);
  auto example = load(source_path("configs/frozen_lake_async.yaml"), {});
  ASSERT_TRUE(example) << example.error().detail;
  EXPECT_TRUE(not_built(*example).empty());
  EXPECT_EQ(find_note(example->warnings, "determinism"), nullptr);
  EXPECT_NE(find_note(ratio->warnings, "determinism"), nullptr);
  struct Case {
    std::vector<std::string> overrides;
    std::string text;
  };
  const std::vector<Case> cases = {
      {{"async.mode=one_step_off", "async.depth=1.5"}, "give a whole number of steps"},
      {{"async.mode=one_step_off", "async.bound=2"}, "every step is exactly depth 1 old"},
      {{"async.mode=fully_async", "async.depth=3", "async.bound=2"}, "2 is below depth 3"},
      {{"async.mode=fully_async", "async.depth=0"}, "0 with mode fully_async"},
      {{"async.depth=2", "async_generation_ratio=1"}, "both say how far generation"},
      {{"async.mode=fully_async", "placement.offload=step"}, "use never"},
      {{"async.mode=fully_async", "enable_old_logprobs_recompute=true"}, "nothing weighs that"},
      {{"async.mode=one_step_off", "async.depth=2", "actor_train.pg_variant=vanilla"},
       "vanilla has no trust region, and async.bound 2 lets it train on answers 2 steps old"},
  };
  for (const Case& x : cases) {
    auto refused = asked(x.overrides);
    ASSERT_FALSE(refused) << x.text;
    EXPECT_NE(refused.error().detail.find(x.text), std::string::npos) << refused.error().detail;
  }
}

// What this version plans and does not run is a warning by name, never a refusal.
TEST(ConfigLoad, LoadsWhatIsNotBuilt) {
  struct Case {
    std::string override_text;
    std::string key;
    std::string text;
  };
  const std::vector<Case> cases = {
      {"adv_estimator=optimal_token_baseline", "adv_estimator",
       "optimal_token_baseline is not built in; use gae, grpo"},
      {"kl_penalty=full", "kl_penalty", "use kl, abs, mse or k3"},
      {"max_steps=-1", "actor_train.training_args.lr_scheduler_type",
       "a rate that falls towards the end needs one"},
      {"actor_train.model_args.lora_target=all", "pretrain", "give a folder"},
      {"actor_infer.model_args.lora_target=all", "actor_infer.model_args.lora_target",
       "another adapter than actor_train's"},
      {"actor_train.training_args.lr_scheduler_type=warmup_stable_decay",
       "actor_train.training_args.lr_scheduler_kwargs", "give their number"},
      {"actor_infer.generating_args.num_beams=4", "actor_infer.generating_args.num_beams", "use 1"},
      {"actor_infer.generating_args.stop_strings=['']", "actor_infer.generating_args.stop_strings",
       "an empty text is in every answer"},
      {"custom_envs.Lake.env_type=deepeyes", "custom_envs.Lake.env_type",
       "deepeyes is not built in (built in: frozen_lake, sokoban, roll_math, roll_code, roll_qa, "
       "game:, plugin, webshop)"},
      {"rewards.env_return.type=detection", "rewards.env_return.type", "plugin can score"},
  };
  for (const Case& x : cases) {
    auto result = load_small({x.override_text});
    ASSERT_TRUE(result) << x.override_text << result.error().detail;
    std::vector<Note> missing = not_built(*result);
    const Note* note = find_note(missing, x.key);
    ASSERT_NE(note, nullptr) << x.override_text;
    EXPECT_NE(note->text.find(x.text), std::string::npos) << note->text;
    bool is_warned = std::any_of(result->warnings.begin(), result->warnings.end(),
                                 [&](const Note& warning) { return warning.key == x.key; });
    EXPECT_TRUE(is_warned) << x.key;
  }
  EXPECT_TRUE(not_built(loaded(load_small())).empty());
  EXPECT_TRUE(
      not_built(loaded(load_small({"max_steps=-1", "reward_normalization.grouping=state",
                                   "actor_infer.generating_args.repetition_penalty=1.1",
                                   "reward_normalization.norm_mean_type=running",
                                   "actor_train.training_args.lr_scheduler_type=constant"})))
          .empty());
}

/// The names in `text` between backticks.
std::set<std::string> names_in(const std::string& text) {
  std::set<std::string> names;
  for (size_t at = text.find('`'); at != text.npos; at = text.find('`', at + 1)) {
    const size_t end = text.find('`', at + 1);
    if (end == text.npos) break;
    names.insert(text.substr(at + 1, end - at - 1));
    at = end;
  }
  return names;
}

std::string text_of(const std::string& path) {
  auto text = read_file(source_path(path), uintmax_t{1} << 20);
  EXPECT_TRUE(text) << text.error().detail;
  return text ? *text : "";
}

// docs/config.md says of each key that not_built.cpp names why, and what to do instead.
TEST(ConfigLoad, EachKeyThatIsNotRunHasARowInTheDocs) {
  const std::string docs = text_of("docs/config.md");
  const size_t begin = docs.find("## What is refused"),
               end = docs.find("\nAccepted, without effect");
  ASSERT_NE(begin, docs.npos);
  ASSERT_NE(end, docs.npos);
  const std::set<std::string> rows = names_in(docs.substr(begin, end - begin));
  std::set<std::string> known;
  for (const KeyInfo& key : all_keys())
    if (key.has_effect && !key.is_section) known.insert(key.path.substr(key.path.rfind('.') + 1));
  const std::string source = text_of("runtime/config/roll/not_built.cpp");
  size_t checked = 0;
  for (size_t at = source.find('"'); at != source.npos; at = source.find('"', at + 1)) {
    const size_t close = source.find('"', at + 1);
    ASSERT_NE(close, source.npos);
    const std::string literal = source.substr(at + 1, close - at - 1);
    at = close;
    if (literal.empty() ||
        literal.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.") != literal.npos)
      continue;
    const std::string leaf = literal.substr(literal.rfind('.') + 1);
    if (!known.contains(leaf)) continue;
    ++checked;
    const bool has_row = std::ranges::any_of(rows, [&](const std::string& row) {
      return row == leaf || row.ends_with("." + leaf) || row.starts_with(leaf + ":") ||
             row.find("." + leaf + ":") != row.npos;
    });
    EXPECT_TRUE(has_row) << "docs/config.md, What is refused: no row for " << leaf;
  }
  EXPECT_GT(checked, 20u);
}

TEST(ConfigLoad, LossesAndCorrectionsOfRollRun) {
  const std::string filters =
      "train_infer_correction.filters=[{enabled: true, agg_type: sequence, ratio_low: 0.5}, "
      "{enabled: false}]";
  const RunConfig c = loaded(load_small(
      {"actor_train.pg_variant=topr", "actor_train.topr_positive_weight=0.5", "ratio_type=segment",
       "policy_loss.ratio_cap=1.5", "train_infer_correction.is_weight.enabled=true",
       "train_infer_correction.is_weight.bound=gate",
       "train_infer_correction.is_weight.lower_bound=0.8", filters,
       "train_infer_correction.rejections=seq_max_k2",
       "train_infer_correction.rejection_thresholds=0.3"}));
  EXPECT_TRUE(not_built(c).empty());
  EXPECT_EQ(c.actor_train.topr_positive_weight, 0.5);
  EXPECT_EQ(c.policy_loss.ratio_cap, 1.5);
  const catalog::Correction& rules = c.train_infer_correction.rules;
  EXPECT_EQ(rules.bound, catalog::CorrectionBound::gate);
  EXPECT_EQ(rules.low, 0.8);
  EXPECT_EQ(rules.high, 1.2) << "ROLL's default";
  ASSERT_EQ(rules.filters.size(), 1U);
  EXPECT_EQ(rules.filters[0].level, catalog::CorrectionLevel::sequence);
  EXPECT_EQ(rules.filters[0].ratio_low, 0.5);
  EXPECT_EQ(rules.filters[0].ratio_high, 1.2);
  ASSERT_EQ(rules.rejections.size(), 1U);
  EXPECT_EQ(rules.rejections[0].high, 0.3);
  EXPECT_EQ(c.derived.old_log_probs, OldLogProbs::recomputed) << "it compares both";
}

TEST(ConfigLoad, ABadCorrectionOfRollIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"train_infer_correction.filters=[{enabled: true, ratio_lo: 1}]", "did you mean 'ratio_low'"},
      {"train_infer_correction.filters=[{enabled: true, agg_type: row}]", "agg_type of a rule"},
      {"train_infer_correction.filters=[{enabled: true, diff_high: x}]", "diff_high of a rule"},
      {"train_infer_correction.rejections=token_k1", "needs thresholds"},
      {"train_infer_correction.is_weight.lower_bound=2", "2 is above upper_bound 1.2"}};
  for (const auto& [override_text, text] : cases) {
    const auto result = load_small({override_text});
    ASSERT_FALSE(result) << override_text;
    EXPECT_NE(result.error().detail.find(text), std::string::npos) << result.error().detail;
  }
}

TEST(ConfigLoad, ExpertsAreCutInTrainingAlone) {
  const auto missing = [](const std::vector<std::string>& overrides) {
    return not_built(loaded(load_small(overrides)));
  };
  const std::string train = "actor_train.strategy_args={strategy_name: ";
  const RunConfig config = loaded(load_small({train + "megatron_train, strategy_config: "
                                                      "{expert_model_parallel_size: 2}}"}));
  EXPECT_EQ(config.actor_train.strategy_args.expert_parallel_size, 2);
  EXPECT_TRUE(not_built(config).empty());
  const std::string key = ".strategy_args.strategy_config";
  const RunConfig by_layer =
      loaded(load_small({train + "fsdp2_train, strategy_config: {ep_size: 2}}"}));
  EXPECT_TRUE(not_built(by_layer).empty());
  ASSERT_NE(find_note(by_layer.notes, "actor_train" + key), nullptr);
  EXPECT_EQ(find_note(by_layer.notes, "actor_train" + key)->text,
            "in a run but for its experts the model is whole on each card, its gradients and "
            "moments are cut (ZeRO 2)");
  const auto adapted = missing({train + "megatron_train, strategy_config: "
                                        "{expert_model_parallel_size: 2}}",
                                "actor_train.model_args.lora_target=all"});
  EXPECT_EQ(find_note(adapted, "actor_train.model_args.lora_target"), nullptr);
}

TEST(ConfigLoad, DefinitionsForInterpolationNeedNoSchema) {
  std::string text = std::string(test::k_small_config) + "my_rate: 2e-5\n";
  auto result = load_text(text, "t.yaml", {"actor_train.training_args.learning_rate=${my_rate}"});
  EXPECT_DOUBLE_EQ(loaded(std::move(result)).actor_train.training_args.learning_rate, 2e-5);
}

TEST(ConfigLoad, ResolvedTextIsComplete) {
  RunConfig config = loaded(load_small());
  RunConfig again = loaded(load_text(config.resolved_yaml, "resolved.yaml"));
  EXPECT_TRUE(test::same_settings(config, again));
  EXPECT_EQ(config.resolved_yaml, again.resolved_yaml);
  // given the run folder's config.yaml, then nothing in it is warned about
  RunConfig shipped = loaded(load(source_path("configs/frozen_lake.yaml")));
  for (const RunConfig& x : {again, loaded(load_text(shipped.resolved_yaml, "resolved.yaml"))}) {
    EXPECT_TRUE(x.warnings.empty()) << x.warnings[0].key << ": " << x.warnings[0].text;
    EXPECT_TRUE(x.notes.empty()) << x.notes[0].key << ": " << x.notes[0].text;
  }
}

}  // namespace
}  // namespace cohort::config::config_load_test
