#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "runtime/config/roll/not_built.hpp"
#include "tests/support/same_settings.hpp"
#include "tests/support/verl_command.hpp"

namespace cohort::config {
namespace {

using test::quickstart;
using test::warning_of;

RunConfig loaded(const std::vector<std::string>& args) {
  auto run = load_verl(args);
  EXPECT_TRUE(run) << (run ? "" : run.error().detail);
  return run ? *run : RunConfig{};
}

/// A folder of its own, gone with the test.
struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("cohort_verl_test_" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name, std::ios::binary) << text;
    return (path / name).string();
  }
};

TEST(VerlQuickstart, GivesTheNumbersOfTheSpec) {
  RunConfig run = loaded(quickstart());
  const Derived& d = run.derived;
  EXPECT_EQ(run.rollout_batch_size, 128);
  EXPECT_EQ(run.num_return_sequences_in_group, 5);
  EXPECT_EQ(d.trajectories_per_step, 640);
  EXPECT_EQ(d.trajectories_per_rank, 80);
  EXPECT_EQ(d.mini_batch_per_rank, 40);
  EXPECT_EQ(d.gradient_accumulation, 2);
  EXPECT_EQ(d.optimizer_steps_per_step, 2);
  EXPECT_EQ(d.log_prob_passes, 2);
  EXPECT_EQ(d.ref_log_prob_passes, 2);
  EXPECT_EQ(d.infer_replicas, 4);
  EXPECT_EQ(d.train_rows, 7473);
  EXPECT_EQ(d.total_steps, 58);
  EXPECT_EQ(d.dropped_rows, 49);
  EXPECT_EQ(run.max_steps, 58);
  EXPECT_EQ(d.total_optimizer_steps, 116);
  EXPECT_EQ(d.optimizer_batch, 320);
  EXPECT_TRUE(d.recompute_old_log_prob) << "two optimizer steps are not on-policy";
  EXPECT_EQ(run.eval_steps, 5);
  EXPECT_TRUE(run.verl.val_before_train);
}

TEST(VerlQuickstart, RolesShareEveryCard) {
  RunConfig run = loaded(quickstart());
  std::vector<uint32_t> all(8);
  std::iota(all.begin(), all.end(), 0u);
  EXPECT_EQ(run.dialect, Dialect::verl);
  EXPECT_EQ(run.pipeline, Pipeline::rlvr);
  EXPECT_EQ(run.placement.mode, PlacementMode::timeshare);
  EXPECT_EQ(run.actor_train.device_mapping, all);
  EXPECT_EQ(run.actor_infer.device_mapping, all);
  EXPECT_EQ(run.reference.device_mapping, all);
  EXPECT_FALSE(run.critic.is_configured) << "grpo has no critic";
  EXPECT_EQ(run.actor_infer.strategy_args.strategy, Strategy::vllm);
  EXPECT_EQ(run.actor_infer.strategy_args.tensor_parallel_size, 2);
  EXPECT_EQ(run.actor_infer.strategy_args.gpu_memory_utilization, 0.6);
  EXPECT_EQ(run.actor_infer.strategy_args.max_model_len, 640);
  EXPECT_FALSE(run.actor_infer.strategy_args.enable_chunked_prefill);
  EXPECT_TRUE(run.actor_train.model_args.is_gradient_checkpointing);
  EXPECT_FALSE(run.actor_train.param_offload);
  EXPECT_TRUE(run.reference.param_offload);
  EXPECT_TRUE(run.reference.strategy_args.offload_param) << "of a reference it is CPUOffload";
}

TEST(VerlQuickstart, AlgorithmHasVerlsMeaning) {
  RunConfig run = loaded(quickstart());
  EXPECT_EQ(run.adv_estimator, AdvEstimator::grpo);
  EXPECT_EQ(run.reward_normalization.grouping, Grouping::traj_group_id);
  EXPECT_EQ(run.reward_normalization.method, NormMethod::mean_std);
  EXPECT_EQ(run.gamma, 1.0);
  EXPECT_EQ(run.lambd, 1.0);
  EXPECT_TRUE(run.use_kl_loss);
  EXPECT_EQ(run.kl_loss_coef, 0.001);
  EXPECT_EQ(run.init_kl_coef, 0.0) << "the KL is not in the reward";
  EXPECT_EQ(run.pg_clip_low, 0.2);
  EXPECT_EQ(run.pg_clip_high, 0.2);
  EXPECT_TRUE(run.dual_clip_loss);
  EXPECT_EQ(run.loss_agg_mode, LossAgg::token_mean);
  EXPECT_EQ(run.entropy_loss_coef, 0.001);
  EXPECT_EQ(run.max_grad_norm, 1.0);
  const TrainingArgs& t = run.actor_train.training_args;
  EXPECT_EQ(t.learning_rate, 5e-7);
  EXPECT_EQ(t.weight_decay, 0.01);
  EXPECT_EQ(t.per_device_train_batch_size, 20);
  EXPECT_EQ(t.gradient_accumulation_steps, 2);
  EXPECT_EQ(t.lr_scheduler_type, SchedulerType::constant);
  EXPECT_EQ(run.actor_infer.generating_args.temperature, 1.0);
  EXPECT_EQ(run.actor_infer.generating_args.max_new_tokens, 128);
  EXPECT_EQ(run.validation.generating_args.temperature, 0.0);
  EXPECT_EQ(run.sequence_length, 640);
  EXPECT_EQ(run.rewards.at("data_source").type, RewardType::data_source);
}

TEST(VerlQuickstart, SaysWhatIsInertOrContradictory) {
  RunConfig run = loaded(quickstart());
  EXPECT_EQ(warning_of(run, "algorithm.kl_ctrl.kl_coef"),
            "has no effect without algorithm.use_kl_in_reward: the KL is in the loss "
            "(actor.use_kl_loss) or nowhere");
  EXPECT_EQ(warning_of(run, "trainer.experiment_name"),
            "'qwen2_7b_function_rm' says 7B, but the model is Qwen2.5-0.5B-Instruct (0.5B)");
  EXPECT_EQ(warning_of(run, "data.truncation"),
            "'error': verl's RL path reads it nowhere, a prompt above max_prompt_length stops the "
            "run later with a tensor of the wrong size; here filter_overlong_prompts has dropped "
            "such rows before");
  EXPECT_NE(warning_of(run, "data.max_response_length").find("here generation stops at R"),
            std::string::npos);
  EXPECT_NE(warning_of(run, "trainer.save_freq").find("the trained weights are lost"),
            std::string::npos);
  EXPECT_EQ(warning_of(run, "data.train_files"),
            "/home/u/data/gsm8k/train.parquet: no such file; taken for openai/gsm8k train with its "
            "7473 rows, by its name (data.train_rows says otherwise)");
}

TEST(VerlQuickstart, SeesTheEnvironmentsAttentionBackend) {
  EXPECT_EQ(warning_of(loaded(quickstart()), "VLLM_ATTENTION_BACKEND"), "");
  ::setenv("VLLM_ATTENTION_BACKEND", "XFORMERS", 1);
  std::string warning = warning_of(loaded(quickstart()), "VLLM_ATTENTION_BACKEND");
  ::unsetenv("VLLM_ATTENTION_BACKEND");
  EXPECT_TRUE(warning.starts_with("'XFORMERS' in the environment has no effect: on npu"))
      << warning;
}

TEST(VerlQuickstart, MindSpeedKeysPassThrough) {
  RunConfig run = loaded(quickstart(
      {"actor_rollout_ref.actor.strategy=megatron",
       "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2",
       "+actor_rollout_ref.actor.megatron.override_transformer_config.use_flash_attn=True",
       "+actor_rollout_ref.actor.megatron.override_transformer_config.swap_optimizer=True",
       "+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity="
       "full"}));
  EXPECT_EQ(run.actor_train.strategy_args.strategy, Strategy::megatron_train);
  EXPECT_EQ(run.actor_train.strategy_args.tensor_parallel_size, 2);
  EXPECT_TRUE(run.actor_train.strategy_args.recompute_granularity_full);
  EXPECT_TRUE(run.verl.swap_optimizer);
  EXPECT_EQ(run.derived.train_dp, 4);
  EXPECT_EQ(run.derived.trajectories_per_rank, 160);
  EXPECT_EQ(run.derived.mini_batch_per_rank, 80);
  EXPECT_EQ(run.derived.gradient_accumulation, 4);
}

TEST(VerlLoad, LastOverrideWins) {
  EXPECT_EQ(loaded(quickstart({"data.train_batch_size=256"})).rollout_batch_size, 256);
  EXPECT_EQ(loaded(quickstart({"data.train_batch_size=256", "++data.train_batch_size=64"}))
                .rollout_batch_size,
            64);
}

TEST(VerlLoad, ReadsHydrasListsAndNulls) {
  RunConfig run = loaded(quickstart(
      {"trainer.logger=['console','tensorboard']",
       "data.train_files=[/a/gsm8k/train.parquet,/b.parquet]", "trainer.total_training_steps=null",
       "actor_rollout_ref.actor.clip_ratio_low=null", "actor_rollout_ref.actor.clip_ratio=0.1"}));
  EXPECT_EQ(run.actor_train.data_args.file_name,
            (std::vector<std::string>{"/a/gsm8k/train.parquet", "/b.parquet"}));
  EXPECT_EQ(run.derived.total_steps, 0) << "one of the files is not known";
  EXPECT_EQ(run.max_steps, 0);
  EXPECT_EQ(run.pg_clip_low, 0.1);
  EXPECT_EQ(run.pg_clip_high, 0.2);
}

TEST(VerlLoad, RemovalOfADefaultIsANote) {
  RunConfig run = loaded(quickstart({"~data.seed", "~trainer.logger"}));
  ASSERT_EQ(run.notes.size(), 1u);
  EXPECT_EQ(run.notes[0],
            (Note{"data.seed", "override '~data.seed'", "nothing to remove: the default stays"}));
}

TEST(VerlLoad, KeysWithoutEffectAreNotedOneByOne) {
  RunConfig run = loaded(quickstart(
      {"actor_rollout_ref.actor.profiler.enable=True", "+ray_kwargs.ray_init.num_cpus=8"}));
  ASSERT_EQ(run.notes.size(), 3u);  // the last: trainer.logger of the quickstart
  EXPECT_EQ(run.notes[0].key, "actor_rollout_ref.actor.profiler.enable");
  EXPECT_EQ(run.notes[0].where, "override 'actor_rollout_ref.actor.profiler.enable=True'");
  EXPECT_EQ(run.notes[1].key, "ray_kwargs.ray_init.num_cpus");
  EXPECT_EQ(run.notes[1].text, "belongs to verl's Hydra and Ray set-up");
}

TEST(VerlLoad, CohortsOwnKeysStandBesideVerls) {
  RunConfig run = loaded(quickstart({"placement.mode=separate", "platform=cpu", "output_dir=/o",
                                     "cards.memory_bytes=64GiB", "seed=7"}));
  EXPECT_EQ(run.placement.mode, PlacementMode::separate) << "an explicit mode wins";
  EXPECT_EQ(run.platform, Platform::cpu);
  EXPECT_EQ(run.output_dir, "/o");
  EXPECT_EQ(run.cards.memory_bytes, uint64_t{64} << 30);
  EXPECT_EQ(run.seed, 7);
}

TEST(VerlLoad, GaeBuildsACritic) {
  RunConfig run =
      loaded(quickstart({"algorithm.adv_estimator=gae", "critic.ppo_micro_batch_size_per_gpu=10",
                         "critic.model.fsdp_config.param_offload=True"}));
  EXPECT_TRUE(run.critic.is_configured);
  EXPECT_EQ(run.critic.device_mapping.size(), 8u);
  EXPECT_EQ(run.critic.training_args.learning_rate, 1e-5);
  EXPECT_EQ(run.critic.training_args.gradient_accumulation_steps, 4);
  EXPECT_EQ(run.critic.model_args.model_name_or_path, "Qwen/Qwen2.5-0.5B-Instruct");
  EXPECT_TRUE(run.critic.param_offload);
  EXPECT_TRUE(run.whiten_advantages);
  EXPECT_EQ(run.value_clip, 0.5);
}

TEST(VerlLoad, PoolsApartWithoutHybridEngine) {
  RunConfig shared = loaded(quickstart({"actor_rollout_ref.hybrid_engine=False",
                                        "+rollout.nnodes=1", "+rollout.n_gpus_per_node=8"}));
  EXPECT_EQ(shared.placement.mode, PlacementMode::separate);
  EXPECT_EQ(shared.num_gpus_per_node, 16);
  EXPECT_EQ(shared.actor_train.device_mapping.front(), 0u);
  EXPECT_EQ(shared.actor_infer.device_mapping.front(), 8u);
  EXPECT_EQ(shared.derived.num_nodes, 1);
  RunConfig apart = loaded(quickstart({"actor_rollout_ref.hybrid_engine=False", "+rollout.nnodes=2",
                                       "+rollout.n_gpus_per_node=4"}));
  EXPECT_EQ(apart.num_gpus_per_node, 8);
  EXPECT_EQ(apart.derived.num_nodes, 3);
  EXPECT_EQ(apart.actor_infer.device_mapping,
            (std::vector<uint32_t>{8, 9, 10, 11, 16, 17, 18, 19}));
  EXPECT_EQ(apart.derived.infer_replicas, 4);
}

TEST(VerlLoad, HalfPrecisionComputesInSingle) {
  const std::string key = "actor_rollout_ref.actor.fsdp_config.dtype";
  const RunConfig run = loaded(quickstart({key + "=float16"}));
  EXPECT_TRUE(not_built(run).empty());
  const auto warned = std::ranges::find(run.warnings, key, &Note::key);
  ASSERT_NE(warned, run.warnings.end());
  EXPECT_NE(warned->text.find("computes in fp32"), std::string::npos) << warned->text;
}

// verl pushes every k steps, and has then started k (1 + t) steps; here each step is pushed.
TEST(VerlLoad, FullyAsyncKeysBecomeADepth) {  // docs/async.md
  const auto pools = [](const std::string& threshold, const std::string& trigger,
                        const std::string& partial) {
    return loaded(
        quickstart({"actor_rollout_ref.hybrid_engine=False", "+rollout.nnodes=1",
                    "+rollout.n_gpus_per_node=8", "actor_rollout_ref.actor.use_kl_loss=False",
                    "+async_training.staleness_threshold=" + threshold,
                    "+async_training.trigger_parameter_sync_step=" + trigger,
                    "+async_training.partial_rollout=" + partial}));
  };
  const RunConfig run = pools("0.5", "2", "True");
  EXPECT_EQ(run.async.mode, AsyncMode::fully_async);
  EXPECT_EQ(run.async.depth, 2);
  EXPECT_EQ(run.derived.steps_ahead, 2);
  EXPECT_EQ(run.derived.old_log_probs, OldLogProbs::behavior);
  EXPECT_TRUE(not_built(run).empty());
  EXPECT_EQ(pools("0", "1", "True").async.mode, AsyncMode::sync);
  const std::vector<Note> notes = not_built(pools("0.5", "2", "False"));
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].key, "async_training.partial_rollout");
}

TEST(VerlLoad, ReferenceOnMegatronIsCutAsTheActor) {
  RunConfig run =
      loaded(quickstart({"actor_rollout_ref.actor.strategy=megatron",
                         "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2",
                         "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2",
                         "actor_rollout_ref.ref.megatron.pipeline_model_parallel_size=1"}));
  EXPECT_EQ(run.reference.strategy_args.tensor_parallel_size, 2);
  EXPECT_EQ(run.reference.strategy_args.pipeline_parallel_size, 1);
  EXPECT_EQ(run.derived.train_dp, 2);
  EXPECT_EQ(run.derived.ref_log_prob_passes, 4) << "640 over 4 ranks by 40";
}

// Commands of verl's Ascend examples and the DAPO recipe, whole key sets with their own numbers.
TEST(VerlLoad, CommandsOfTheFieldLoad) {
  const std::vector<std::string> base = {"actor_rollout_ref.model.path=/m/Qwen3-30B-A3B-Base",
                                         "actor_rollout_ref.rollout.name=vllm",
                                         "algorithm.adv_estimator=grpo"};
  const std::vector<std::vector<std::string>> commands = {
      {"data.train_batch_size=256", "data.prompt_key=prompt", "data.return_raw_chat=True",
       "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=10",
       "actor_rollout_ref.actor.ppo_mini_batch_size=64", "actor_rollout_ref.rollout.n=5",
       "actor_rollout_ref.actor.use_torch_compile=False",
       "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=32",
       "trainer.logger=[\"console\",\"wandb\"]", "trainer.device=npu", "trainer.resume_mode=auto",
       "++actor_rollout_ref.actor.entropy_from_logits_with_chunking=True",
       "++actor_rollout_ref.ref.entropy_from_logits_with_chunking=True"},
      {"data.train_batch_size=16",
       "+data.gen_batch_size=48",
       "actor_rollout_ref.rollout.n=16",
       "actor_rollout_ref.actor.ppo_mini_batch_size=16",
       "data.truncation=left",
       "data.max_prompt_length=2048",
       "data.max_response_length=20480",
       "actor_rollout_ref.actor.strategy=fsdp2",
       "actor_rollout_ref.actor.use_dynamic_bsz=True",
       "actor_rollout_ref.actor.ulysses_sequence_parallel_size=4",
       "actor_rollout_ref.actor.clip_ratio_high=0.28",
       "actor_rollout_ref.actor.clip_ratio_c=10.0",
       "actor_rollout_ref.actor.fsdp_config.offload_policy=True",
       "trainer.nnodes=2",
       "+algorithm.filter_groups.enable=True",
       "+algorithm.filter_groups.metric=acc",
       "+algorithm.filter_groups.max_num_gen_batches=10",
       "+reward_model.reward_kwargs.overlong_buffer_cfg.enable=True",
       "+reward_model.reward_kwargs.overlong_buffer_cfg.len=4096",
       "+reward_model.reward_kwargs.overlong_buffer_cfg.penalty_factor=1.0",
       "+reward_model.reward_kwargs.overlong_buffer_cfg.log=False",
       "+reward_model.reward_kwargs.max_resp_len=20480",
       "reward_model.reward_manager=dapo"},
      {"data.train_batch_size=512", "actor_rollout_ref.rollout.n=16", "trainer.nnodes=16",
       "trainer.n_gpus_per_node=16", "actor_rollout_ref.actor.ppo_mini_batch_size=512",
       "actor_rollout_ref.actor.strategy=megatron",
       "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
       "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2",
       "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4",
       "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=8",
       "actor_rollout_ref.actor.megatron.expert_model_parallel_size=32",
       "actor_rollout_ref.actor.megatron.expert_tensor_parallel_size=1",
       "actor_rollout_ref.actor.megatron.param_offload=True",
       "+actor_rollout_ref.actor.recompute_old_log_prob=False",
       "+actor_rollout_ref.actor.megatron.override_transformer_config.swap_optimizer=True",
       "+actor_rollout_ref.actor.megatron.override_transformer_config.moe_token_dispatcher_type="
       "alltoall",
       "+actor_rollout_ref.actor.megatron.override_transformer_config."
       "pipeline_num_transformer_layers=[[7],[7],[8],[8],[8],[8],[8],[7]]",
       "actor_rollout_ref.rollout.expert_parallel_size=1", "trainer.balance_batch=False"}};
  for (const std::vector<std::string>& command : commands) {
    std::vector<std::string> words = base;
    words.insert(words.end(), command.begin(), command.end());
    auto run = load_verl(words);
    EXPECT_TRUE(run) << (run ? "" : run.error().detail);
  }
  std::vector<std::string> words = base;
  words.insert(words.end(), commands[2].begin(), commands[2].end());
  RunConfig run = loaded(words);
  EXPECT_EQ(run.derived.optimizer_steps_per_step, 1);
  EXPECT_FALSE(run.derived.recompute_old_log_prob) << "the A3 recipe's on-policy step";
  EXPECT_EQ(run.derived.old_log_probs, OldLogProbs::first_pass);
}

TEST(VerlLoad, OldLogProbsOfTheUpdatesOwnPassNeedOneOptimizerStep) {  // decisions/0001
  const std::string never = "+actor_rollout_ref.actor.recompute_old_log_prob=False";
  EXPECT_EQ(loaded(quickstart()).derived.old_log_probs, OldLogProbs::recomputed);
  auto refused = load_verl(quickstart({never}));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("data.train_batch_size 128 must be ppo_mini_batch_size 64"),
            std::string::npos)
      << refused.error().detail;
  RunConfig bypass = loaded(quickstart({never, "algorithm.rollout_correction.bypass_mode=True"}));
  EXPECT_EQ(bypass.derived.old_log_probs, OldLogProbs::behavior);
}

TEST(VerlLoad, ScheduleIsCountedInRlSteps) {
  RunConfig run = loaded(quickstart({"actor_rollout_ref.actor.optim.lr_warmup_steps=10",
                                     "actor_rollout_ref.actor.optim.lr_scheduler_type=cosine",
                                     "actor_rollout_ref.actor.optim.min_lr_ratio=0.1"}));
  EXPECT_EQ(run.actor_train.training_args.warmup_steps, 20) << "two optimizer steps an RL step";
  EXPECT_EQ(run.actor_train.training_args.lr_scheduler_type, SchedulerType::cosine_with_min_lr);
}

TEST(VerlLoad, DynamicBatchesIgnoreTheMicroKey) {
  RunConfig run = loaded(quickstart({"actor_rollout_ref.actor.use_dynamic_bsz=True"}));
  EXPECT_EQ(warning_of(run, "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"),
            "has no effect under use_dynamic_bsz: passes are cut at 16384 tokens");
  EXPECT_EQ(run.derived.gradient_accumulation, 0);
  EXPECT_EQ(run.derived.optimizer_steps_per_step, 2);
}

TEST(VerlLoad, Warnings) {
  struct Case {
    std::vector<std::string> overrides;
    std::string key;
    std::string text;
  };
  const std::vector<Case> cases = {
      {{"actor_rollout_ref.actor.ppo_mini_batch_size=48",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=15"},
       "actor_rollout_ref.actor.ppo_mini_batch_size",
       "data.train_batch_size 128 % 48 = 32: verl does not check this and scales the last, shorter "
       "mini-batch wrongly; here it is normalised by its own counts"},
      {{"actor_rollout_ref.rollout.n=1", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8"},
       "actor_rollout_ref.rollout.n",
       "1 under grpo: a group of one has no baseline, the advantage is the raw score; verl's "
       "examples use 5 to 16"},
      {{"trainer.critic_warmup=3"},
       "trainer.critic_warmup",
       "has no effect: there is no critic to warm up (verl would train nothing before step 3)"},
      {{"~algorithm.adv_estimator", "critic.ppo_micro_batch_size_per_gpu=20"},
       "algorithm.adv_estimator",
       "left at verl's default gae: a critic of the policy's size is built and trained"},
      {{"actor_rollout_ref.actor.clip_ratio=0.3"},
       "actor_rollout_ref.actor.clip_ratio",
       "has no effect: clip_ratio_low 0.2 and clip_ratio_high 0.2 decide; set these, or make them "
       "~"},
      {{"algorithm.use_kl_in_reward=True"},
       "algorithm.use_kl_in_reward",
       "the KL counts twice: in the reward and, by actor.use_kl_loss, in the loss"},
      {{"actor_rollout_ref.rollout.max_model_len=600"},
       "actor_rollout_ref.rollout.max_model_len",
       "600 is less than 640 = prompt 512 + response 128: long prompts get short answers"},
      {{"actor_rollout_ref.rollout.agent.num_workers=7"},
       "actor_rollout_ref.rollout.agent.num_workers",
       "verl would stop: 640 trajectories do not split evenly over 7 workers; no effect here"},
      {{"~actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
        "actor_rollout_ref.actor.ppo_micro_batch_size=160"},
       "actor_rollout_ref.actor.ppo_micro_batch_size",
       "deprecated: 160 over 8 ranks is ppo_micro_batch_size_per_gpu 20"},
      {{"actor_rollout_ref.actor.optim.clip_grad=0.5"},
       "actor_rollout_ref.actor.optim.clip_grad",
       "has no effect: strategy fsdp reads actor.grad_clip"},
      {{"data.train_files=/data/dapo-math-17k.parquet"},
       "data.train_files",
       "/data/dapo-math-17k.parquet: no such file; the number of steps is not known: give "
       "data.train_rows, or trainer.total_training_steps"},
  };
  for (const Case& x : cases)
    EXPECT_EQ(warning_of(loaded(quickstart(x.overrides)), x.key), x.text) << x.overrides[0];
}

TEST(VerlLoad, WhatIsNotBuiltInIsSaidByVerlsNames) {
  RunConfig run = loaded(quickstart({"algorithm.use_pf_ppo=True", "trainer.device=cuda"}));
  EXPECT_EQ(warning_of(run, "actor_rollout_ref.actor.strategy"),
            "fsdp: not built in; the built-in engine is used");
  EXPECT_EQ(warning_of(run, "actor_rollout_ref.rollout.name"),
            "vllm: not built in; the built-in engine is used");
  EXPECT_EQ(warning_of(run, "algorithm.use_pf_ppo"),
            "not run by this version: PF-PPO is not built in; use False");
  EXPECT_EQ(not_built(run),
            (std::vector<Note>{{"algorithm.use_pf_ppo", "override 'algorithm.use_pf_ppo=True'",
                                "PF-PPO is not built in; use False"}}));
  EXPECT_EQ(run.platform, Platform::cuda);
  EXPECT_EQ(run.origins.at("platform"), "override 'trainer.device=cuda'");
}

/// Each key whose behaviour is lacking is refused under its own name, and nothing else is.
TEST(VerlLoad, WhatARunLacksIsRefusedByTheKeysOwnName) {
  const std::string actor = "actor_rollout_ref.actor.";
  const std::string rollout = "actor_rollout_ref.rollout.";
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"critic.enable=True", "critic.ppo_micro_batch_size_per_gpu=20"}, "critic.enable"},
      {{actor + "shuffle=True"}, actor + "shuffle"},
      {{actor + "optim.lr_scheduler_type=cosine"}, actor + "optim.lr_scheduler_type"},
      {{"actor_rollout_ref.model.tokenizer_path=/t"}, "actor_rollout_ref.model.tokenizer_path"},
      {{"actor_rollout_ref.model.lora_adapter_path=/x"},
       "actor_rollout_ref.model.lora_adapter_path"},
      {{rollout + "temperature=0.7"}, rollout + "temperature"},
      {{rollout + "do_sample=False"}, rollout + "do_sample"},
      {{"data.train_max_samples=640"}, "data.train_max_samples"},
      {{"reward_model.reward_manager=prime"}, "reward_model.reward_manager"},
      {{"reward_model.enable=True"}, "reward_model.enable"},
      {{"trainer.val_only=True"}, "trainer.val_only"},
      {{"algorithm.adv_estimator=gae", "critic.ppo_micro_batch_size_per_gpu=20",
        "critic.optim.lr_scheduler_type=cosine"},
       "critic.optim.lr_scheduler_type"},
      {{"data.train_files=/none.parquet"}, "trainer.total_training_steps"},
  };
  for (const auto& [overrides, key] : cases) {
    const std::vector<Note> notes = not_built(loaded(quickstart(overrides)));
    ASSERT_EQ(notes.size(), 1U) << key;
    EXPECT_EQ(notes[0].key, key);
  }
  EXPECT_TRUE(not_built(loaded(quickstart())).empty());
}

/// What verl's numbers become for the updater (docs/config.md, verl on this runtime).
TEST(VerlLoad, ARunDoesWhatVerlsKeysSay) {
  const RunConfig run = loaded(quickstart(
      {"platform=cpu", "actor_rollout_ref.actor.clip_ratio_low=0.1",
       "actor_rollout_ref.actor.clip_ratio_high=0.28", "actor_rollout_ref.actor.clip_ratio_c=10",
       "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm",
       "+data.apply_chat_template_kwargs.enable_thinking=False"}));
  EXPECT_EQ(run.actor_train.data_args.chat_template_kwargs, R"({"enable_thinking":false})");
  EXPECT_EQ(run.pipeline, Pipeline::rlvr);
  EXPECT_EQ(run.derived.optimizer_batch, 320);         // 64 prompts x 5
  EXPECT_EQ(run.derived.optimizer_steps_per_step, 2);  // 640 trajectories
  EXPECT_EQ(run.derived.old_log_probs, OldLogProbs::recomputed);
  EXPECT_TRUE(run.dual_clip_loss);
  EXPECT_EQ(run.policy_loss.dual_clip_bound, 10);
  EXPECT_EQ(run.pg_clip_low, 0.1);
  EXPECT_EQ(run.pg_clip_high, 0.28);
  EXPECT_EQ(run.loss_scale_factor, 128);  // R
  EXPECT_EQ(run.norm_mean_type, NormScope::group);
  EXPECT_EQ(run.norm_std_type, NormScope::group);
  EXPECT_EQ(run.reference.device_mapping, run.actor_train.device_mapping);
  EXPECT_EQ(run.placement.mode, PlacementMode::timeshare);
  EXPECT_TRUE(run.actor_train.data_args.filter_overlong_prompts);
  EXPECT_EQ(run.actor_train.data_args.tag, "data_source");
  EXPECT_EQ(run.validation.data_args.messages, "prompt");
  EXPECT_TRUE(run.sft.shuffle);
  EXPECT_EQ(run.val_batch_size, -1);
  const RunConfig ordered = loaded(quickstart({"data.shuffle=False", "data.val_max_samples=64"}));
  EXPECT_FALSE(ordered.sft.shuffle);
  EXPECT_EQ(ordered.val_batch_size, 64);
  EXPECT_TRUE(not_built(ordered).empty());
  const RunConfig dr = loaded(quickstart({"algorithm.norm_adv_by_std_in_grpo=False"}));
  EXPECT_EQ(dr.norm_mean_type, NormScope::group);
  EXPECT_EQ(dr.norm_std_type, NormScope::none);
}

TEST(VerlLoad, RewardsAreVerlsTableOrTheUsersFunction) {
  const RunConfig table = loaded(quickstart());
  ASSERT_EQ(table.rewards.size(), 1U);
  EXPECT_EQ(table.rewards.at("data_source").tag_included, (std::vector<std::string>{"*"}));
  const RunConfig own = loaded(quickstart(
      {"custom_reward_function.path=/r/mine.py", "+custom_reward_function.reward_kwargs.scale=2",
       "custom_reward_function.timeout_s=3", "reward_model.reward_manager=dapo",
       "+reward_model.reward_kwargs.overlong_buffer_cfg.enable=True",
       "+reward_model.reward_kwargs.overlong_buffer_cfg.len=32"}));
  const RewardConfig& function = own.rewards.at("custom_reward_function");
  EXPECT_EQ(function.type, RewardType::plugin);
  EXPECT_EQ(function.plugin.path, "/r/mine.py:compute_score");
  EXPECT_EQ(function.plugin.args, R"({"scale":2})");
  EXPECT_EQ(function.plugin.timeout_s, 3);
  EXPECT_EQ(own.rewards.at("overlong").type, RewardType::overlong);
  EXPECT_EQ(own.rewards.at("overlong").plugin.args, R"({"buffer": 32, "factor": 1})");
}

/// The processes that hold cards get the settings as text (card_command.cpp).
TEST(VerlLoad, TheResolvedTextOfAnyDialectLoadsAgain) {
  const RunConfig run = loaded(quickstart({"platform=cpu"}));
  const auto again = load_text(run.resolved_yaml, "/run/config.yaml");
  ASSERT_TRUE(again.has_value()) << again.error().to_string();
  EXPECT_TRUE(test::same_settings(run, *again));
}

TEST(VerlLoad, NamesThatTellTheRightSizeAreLeftAlone) {
  for (const char* name : {"qwen2.5_0.5b_grpo", "qwen2_5_0_5b", "run-0.5B", "grpo_gsm8k", "b12b_x"})
    EXPECT_EQ(warning_of(loaded(quickstart({std::string("trainer.experiment_name=") + name})),
                         "trainer.experiment_name"),
              "")
        << name;
}

TEST(VerlLoad, StepsFollowFromTheRowsOrTheHint) {
  EXPECT_EQ(loaded(quickstart({"data.train_rows=1000", "trainer.total_epochs=3"})).max_steps, 21);
  EXPECT_EQ(loaded(quickstart({"trainer.total_training_steps=5"})).max_steps, 5);
  EXPECT_EQ(loaded(quickstart({"data.train_max_samples=640"})).max_steps, 5);
  Folder folder;
  std::string rows;
  for (int i = 0; i < 300; ++i) rows += "{\"prompt\": []}\n";
  RunConfig run = loaded(quickstart({"data.train_files=" + folder.write("t.jsonl", rows)}));
  EXPECT_EQ(run.derived.train_rows, 300);
  EXPECT_EQ(run.max_steps, 2);
  EXPECT_EQ(warning_of(run, "data.train_files"), "");
}

TEST(VerlLoad, AFileGoesBeforeTheOverrides) {
  Folder folder;
  std::string file = folder.write("mine.yaml",
                                  "hydra: {searchpath: [x]}\n"
                                  "defaults:\n  - ppo_trainer\n  - _self_\n"
                                  "data: {max_prompt_length: 1024}\n"
                                  "actor_rollout_ref:\n"
                                  "  rollout: {prompt_length: \"${data.max_prompt_length}\"}\n");
  std::vector<std::string> words = quickstart({"data.max_prompt_length=2048"});
  words.insert(words.begin(), file);
  EXPECT_EQ(loaded(words).prompt_length, 2048);
  words[0] = "--config-name=mine";
  words.insert(words.begin(), {"--config-path", folder.path.string()});
  EXPECT_EQ(loaded(words).prompt_length, 2048);
  words = quickstart();
  words.insert(words.begin(), "--config-name=ppo_megatron_trainer");
  EXPECT_EQ(loaded(words).actor_train.strategy_args.strategy, Strategy::megatron_train);
}

TEST(VerlLoad, ResolvedTextGivesTheSameSettings) {
  Folder folder;
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {},
           {"algorithm.adv_estimator=gae", "critic.ppo_micro_batch_size_per_gpu=10"},
           {"actor_rollout_ref.hybrid_engine=False", "+rollout.nnodes=1",
            "+rollout.n_gpus_per_node=8"},
           {"reward_model.reward_manager=dapo",
            "+reward_model.reward_kwargs.overlong_buffer_cfg.enable=True",
            "+reward_model.reward_kwargs.overlong_buffer_cfg.len=32",
            "custom_reward_function.path=/r.py"}}) {
    RunConfig run = loaded(quickstart(more));
    RunConfig again = loaded({folder.write("resolved.yaml", run.resolved_yaml)});
    EXPECT_TRUE(test::same_settings(run, again)) << run.resolved_yaml;
  }
}

}  // namespace
}  // namespace cohort::config
