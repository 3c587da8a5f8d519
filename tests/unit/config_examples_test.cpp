#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/config/env_manager.hpp"
#include "runtime/config/load.hpp"
#include "runtime/config/train_groups.hpp"
#include "tests/support/same_settings.hpp"

// Configs in the shapes that ROLL's users write, one per pipeline and engine. All load; what this
// version lacks is said by name.
namespace cohort::config::config_examples_test {
namespace {

RunConfig loaded(const std::string& text) {
  auto config = load_text(text, "example.yaml");
  EXPECT_TRUE(config) << config.error().detail;
  if (!config) return {};
  auto again = load_text(config->resolved_yaml, "resolved.yaml");
  EXPECT_TRUE(again) << again.error().detail;
  if (!again) return {};
  EXPECT_TRUE(test::same_settings(*config, *again)) << config->resolved_yaml;
  return std::move(*config);
}

bool has(const std::vector<Note>& notes, const std::string& key, const std::string& text) {
  return std::any_of(notes.begin(), notes.end(), [&](const Note& note) {
    return note.key == key && note.text.find(text) != std::string::npos;
  });
}

constexpr const char* k_five_domains = R"(hydra: {run: {dir: .}, output_subdir: null}
exp_name: five-domains
track_with: tensorboard
tracker_kwargs: {log_dir: /data/tensorboard}
rpc_timeout: 72000
num_gpus_per_node: 8
rollout_batch_size: 64
prompt_length: 2048
response_length: 4096
num_return_sequences_in_group: 8
adv_estimator: reinforce
value_clip: 0.5
reward_clip: 10
norm_mean_type: batch
norm_std_type: batch
max_len_mask: true
difficulty_mask: true
difficulty_low_threshold: 0.1
difficulty_high_threshold: 0.95
error_max_len_clip: false
is_num_return_sequences_expand: true
generate_opt_level: 0
pretrain: Qwen/Qwen2.5-7B
reward_pretrain: Qwen/Qwen2.5-7B
validation:
  data_args: {template: qwen2_5, file_name: [data/bench.jsonl], dataset_dir: ./}
  generating_args: {max_new_tokens: "${response_length}", top_p: 0.6, num_return_sequences: 1}
  eval_steps: ${eval_steps}
eval_steps: 10
actor_train:
  worker_cls: roll.pipeline.rlvr.actor_pg_worker.ActorPGWorker
  pg_variant: topr
  topr_positive_weight: 1.0
  model_args: {flash_attn: fa2, attn_implementation: fa2, dtype: bf16, model_type: ~}
  training_args:
    learning_rate: 1.0e-6
    per_device_train_batch_size: 1
    gradient_accumulation_steps: 32
    num_train_epochs: 50
  data_args:
    template: qwen2_5
    file_name: [data/a.jsonl, data/b.jsonl]
    domain_interleave_probs: {math_rule: 0.4, code_sandbox: 0.3, llm_judge: 0.1, ifeval: 0.2}
    preprocessing_num_workers: 16
  strategy_args:
    strategy_name: megatron_train
    strategy_config:
      tensor_model_parallel_size: 1
      pipeline_model_parallel_size: 2
      virtual_pipeline_model_parallel_size: 8
      expert_model_parallel_size: 4
      context_parallel_size: 4
      use_distributed_optimizer: true
      sequence_parallel: true
      recompute_granularity: full
      moe_token_dispatcher_type: alltoall
      max_grad_norm: 1.0
      a_key_of_next_year: 3
  use_sequence_packing: false
  device_mapping: list(range(0,16))
actor_infer:
  generating_args: {max_new_tokens: "${response_length}", top_p: 0.99, top_k: 100}
  strategy_args:
    strategy_name: vllm
    strategy_config: {gpu_memory_utilization: 0.6, tensor_parallel_size: 2, sleep_level: 2}
  num_gpus_per_worker: 2
  device_mapping: list(range(16,28))
reference:
  strategy_args:
    strategy_name: megatron_infer
    strategy_config: {expert_model_parallel_size: 4, bf16: true}
  device_mapping: list(range(0,16))
rewards:
  math_rule:
    worker_cls: roll.pipeline.rlvr.rewards.math_rule_reward_worker.MathRuleRewardWorker
    tag_included: [deepmath_103k]
    world_size: 8
  ifeval:
    worker_cls: roll.pipeline.rlvr.rewards.ifeval_rule_reward_worker.GeneralRuleRewardWorker
    reward_type: soft
    response_length_penalty_coef: 0.0
    tag_included: [ifeval]
  code_sandbox:
    worker_cls: roll.pipeline.rlvr.rewards.code_sandbox_reward_worker.CodeSandboxRewardWorker
    use_local: true
    tag_included: [KodCode]
    query_filter_config: {type: std_filter, filter_args: {std_threshold: 0}}
  llm_judge:
    worker_cls: roll.pipeline.rlvr.rewards.llm_judge_reward_worker.LLMJudgeRewardWorker
    judge_prompt: a-prompt
    judge_model_type: inference
    tag_included: [RLVR]
    model_args: {model_name_or_path: some/judge, attn_implementation: fa2, model_type: trl}
    generating_args: {max_new_tokens: 100, temperature: 0.8}
    strategy_args: {strategy_name: hf_infer, strategy_config: null}
    device_mapping: list(range(28,32))
)";

TEST(RollExamples, RlvrOfFiveDomainsOnMegatron) {
  RunConfig c = loaded(k_five_domains);
  EXPECT_EQ(c.pipeline, Pipeline::rlvr);
  EXPECT_EQ(held_out_sampling(c).top_p, 0.6);
  EXPECT_NE(c.actor_infer.generating_args.top_p, 0.6);
  EXPECT_EQ(c.derived.train_dp, 2);  // 16 / (TP 1 x PP 2 x CP 4)
  EXPECT_EQ(c.derived.optimizer_steps_per_step, 8);
  EXPECT_EQ(c.derived.infer_replicas, 6);
  EXPECT_EQ(c.derived.num_nodes, 4);
  EXPECT_EQ(c.actor_train.strategy_args.expert_parallel_size, 4);
  EXPECT_TRUE(c.actor_train.strategy_args.recompute_granularity_full);
  EXPECT_EQ(c.rewards.at("ifeval").type, RewardType::ifeval);
  EXPECT_EQ(c.rewards.at("code_sandbox").query_filter_config.type, GroupFilter::std_filter);
  EXPECT_EQ(c.rewards.at("llm_judge").worker.device_mapping.size(), 4u);
  using Split = std::vector<std::pair<std::string, int64_t>>;
  EXPECT_EQ(c.derived.domain_prompts,
            (Split{{"math_rule", 25}, {"code_sandbox", 19}, {"llm_judge", 6}, {"ifeval", 14}}));
  EXPECT_TRUE(has(c.warnings, "actor_train.strategy_args.strategy_name",
                  "megatron_train: not built in; the built-in engine is used"));
  EXPECT_TRUE(has(c.notes,
                  "actor_train.strategy_args.strategy_config.{max_grad_norm, a_key_of_next_year}",
                  "an option of Megatron"));
  EXPECT_TRUE(has(c.notes, "validation.eval_steps", "reads it nowhere"));
  EXPECT_TRUE(has(c.notes, "actor_train.training_args.num_train_epochs", "do not read it"));
}

TEST(RollExamples, RlvrWithLoraOfAVisionModel) {
  RunConfig c = loaded(R"(defaults: [../config/deepspeed_zero3@_here_]
rollout_batch_size: 512
num_return_sequences_in_group: 8
prompt_length: 1024
response_length: 4096
init_kl_coef: 0.0
adv_estimator: grpo
use_kl_loss: true
kl_loss_coef: 1.0e-2
lora_target: o_proj,q_proj,k_proj,v_proj
lora_rank: 32
pretrain: Qwen/Qwen2.5-VL-7B-Instruct
actor_train:
  model_args:
    disable_gradient_checkpointing: true
    lora_target: ${lora_target}
    lora_rank: ${lora_rank}
    freeze_module_prefix: vision_model
  training_args: {per_device_train_batch_size: 1, gradient_accumulation_steps: 64}
  data_args: {template: qwen2-vl, file_name: ./data/geoqa/, dataset_dir: ./}
  strategy_args: {strategy_name: deepspeed_train, strategy_config: "${deepspeed_zero3}"}
  device_mapping: list(range(0,16))
actor_infer:
  strategy_args:
    strategy_name: sglang
    strategy_config: {mem_fraction_static: 0.7, tp_size: 2}
  device_mapping: [0, 1, 2, 3]
rewards:
  math_rule:
    worker_cls: roll.pipeline.rlvr.rewards.math_rule_reward_worker.MathRuleRewardWorker
    strategy_args: {strategy_name: hf_infer, strategy_config: ~}
    world_size: 16
)");
  EXPECT_EQ(c.actor_train.model_args.lora_alpha, 64);  // twice the rank
  EXPECT_EQ(c.actor_train.strategy_args.zero_stage, 3);
  EXPECT_FALSE(c.actor_train.model_args.is_gradient_checkpointing);
  EXPECT_EQ(c.actor_infer.strategy_args.tensor_parallel_size, 2);
  EXPECT_EQ(c.actor_infer.strategy_args.gpu_memory_utilization, 0.7);
  EXPECT_EQ(c.derived.infer_replicas, 2);
  EXPECT_TRUE(c.derived.has_group_baseline);   // grpo forces it
  EXPECT_TRUE(c.derived.is_reference_needed);  // without a role: the policy without its adapters
  EXPECT_FALSE(c.derived.is_reference_metric_only);
  EXPECT_TRUE(has(c.notes, "actor_train.strategy_args.strategy_config",
                  "under the adapter the model is whole on each card"));
}

TEST(RollExamples, AgenticWithStepManagersAndOtherEnvironments) {
  RunConfig c = loaded(R"(model_name: ${exp_name}-x
exp_name: steps
max_actions_per_traj: 20
max_tokens_per_step: 512
default_history_length: ${max_actions_per_traj}
env_manager_cls: roll.pipeline.agentic.env_manager.step_concat_env_manager.StepConcatEnvManager
rollout_batch_size: 128
val_batch_size: 128
sequence_length: 12800
ppo_epochs: 2
adv_estimator: step_reinforce
batch_adjust_mode: delete
step_reward_gamma: 1.0
init_kl_coef: 0.0
pretrain: Qwen/Qwen3-1.7B-Base
actor_train:
  training_args:
    per_device_train_batch_size: 2
    gradient_accumulation_steps: 16
    lr_scheduler_type: cosine
  strategy_args: {strategy_name: fsdp2_train, strategy_config: {fsdp_size: 8, offload_policy: true}}
  device_mapping: list(range(0,8))
actor_infer:
  generating_args: {max_new_tokens: "${max_tokens_per_step}", top_k: -1, stop_strings: ["</call>"]}
  device_mapping: list(range(8,16))
reward_normalization: {grouping: batch, method: mean_std, norm_mean_type: batch}
train_env_manager:
  max_env_num_per_worker: 16
  num_env_groups: 128
  format_penalty: -0.05
  group_size_redundancy: 2
  tags: [Guess]
  num_groups_partition: [128]
  llm_proxy: {proxy_type: openai, proxy_config: {base_url: http://x}}
  system_envs: {A: "1"}
val_env_manager: {num_env_groups: 128, tags: [Swe], num_groups_partition: [128]}
custom_envs:
  Guess:
    env_type: game:GuessTheNumber-v0
    max_steps: ${max_actions_per_traj}
    max_tokens_per_step: ${max_tokens_per_step}
    env_manager_cls: ${env_manager_cls}
    use_thread_lock: true
    history_length: ${default_history_length}
    agent_system_template: ~
    agent_template: "{history} {current_observation}"
    env_config: {min_number: 1, max_turns: "${max_actions_per_traj}"}
  Swe:
    env_type: rock_tb_native_env
    env_manager_cls: roll.pipeline.agentic.env_manager.x.AgentNativeStepEnvManager
    agent_template: placeholder
    env_config: {dataset_name: x.jsonl, agent_config: {agent_type: default}}
)");
  EXPECT_EQ(c.pipeline, Pipeline::agentic);
  EXPECT_EQ(c.custom_envs.at("Guess").env_type, EnvType::gem);
  EXPECT_EQ(c.custom_envs.at("Guess").env_type_name, "game:GuessTheNumber-v0");
  EXPECT_TRUE(c.actor_train.strategy_args.offload_param);
  EXPECT_EQ(c.derived.train_environments, 128 * 3);
  EXPECT_EQ(c.derived.train_environment_workers, 24);
  EXPECT_TRUE(c.derived.recompute_old_log_prob);
  EXPECT_EQ(c.derived.recompute_reason, "adv_estimator step_reinforce asks for it");
  EXPECT_TRUE(has(c.warnings, "rollout_batch_size", "batch_adjust_mode delete would"));
  EXPECT_TRUE(has(c.warnings, "custom_envs.Guess.env_manager_cls", "up to 20 of a trajectory"));
  const EnvTemplate& swe = c.custom_envs.at("Swe");
  EXPECT_EQ(swe.env_type, EnvType::package);
  EXPECT_EQ(swe.env_config.plugin.args,
            R"({"dataset_name":"x.jsonl","agent_config":{"agent_type":"default"}})");
  EXPECT_TRUE(has(c.notes, "model_name", "reads it nowhere"));
}

/// A run of one environment, Tag, without its entry.
const std::string k_one_tag = R"(
rollout_batch_size: 8
sequence_length: 2048
adv_estimator: grpo
init_kl_coef: 0
eval_steps: 0
pretrain: Qwen/Qwen3-0.6B
actor_train:
  training_args: {per_device_train_batch_size: 8, lr_scheduler_type: constant}
  device_mapping: [0]
actor_infer: {generating_args: {max_new_tokens: 128, top_p: 1, top_k: 0}, device_mapping: [1]}
train_env_manager: {num_env_groups: 1, group_size: 8, tags: [Tag], num_groups_partition: [1]}
)";

TEST(RollExamples, WorldsOfGemTakeTheirOwnKeysAndTools) {
  const std::string text = k_one_tag + R"(
defaults: [../config/traj_envs_gem_math@_here_, ../config/traj_envs_gem_qa@_here_]
math_agent_template: "{observation}\nWrite '\\boxed{{answer}}'."
custom_envs:
  Tag: ${gem_math.dapo_17k_with_python_code}
  Search: ${gem_qa.HotpotQA_with_search}
)";
  RunConfig c = loaded(text);
  const EnvTemplate& world = c.custom_envs.at("Tag");
  EXPECT_EQ(world.env_type, EnvType::roll_math);
  EXPECT_EQ(world.env_config.plugin.args,
            R"({"max_steps":10,"dataset_name":"open-r1/DAPO-Math-17k-Processed",)"
            R"("question_key":"prompt","answer_key":"solution"})");
  EXPECT_NE(world.tool_wrapper.find(R"("tool_id":"python_code")"), std::string::npos);
  EXPECT_TRUE(not_built(c).empty());
  const std::string search =
      std::string(text).replace(text.find("tags: [Tag]"), 11, "tags: [Search]");
  EXPECT_TRUE(not_built(loaded(search)).empty()) << "a search alone has a network";
  const std::string both =
      "++custom_envs.Search.tool_wrapper.tool_configs=[{tool_id: search}, {tool_id: python_code}]";
  const auto programs = load_text(search, "x.yaml", {both});
  ASSERT_TRUE(programs) << programs.error().detail;
  EXPECT_TRUE(has(not_built(*programs), "custom_envs.Search.tool_wrapper", "search asks a server"));
  const auto reached =
      load_text(search, "x.yaml", {both, "++custom_envs.Search.env_config.sandbox.network=true"});
  ASSERT_TRUE(reached) << reached.error().detail;
  EXPECT_TRUE(not_built(*reached).empty());
}

TEST(RollExamples, AgentsActBehindTheProxyManager) {
  const std::string proxy = "roll.pipeline.agentic.env_manager.proxy_env_manager.ProxyEnvManager";
  const auto with = [&](const std::string& entry) {
    return load_text(k_one_tag + R"(
defaults: [../config/traj_envs@_here_]
env_manager_cls: )" + proxy +
                         "\n" + entry,
                     "x.yaml", {});
  };
  const auto local =
      with(R"(agent_runner_cls: roll.pipeline.agentic.agent_runner.gem_runner.GEMRunner
custom_envs: {Tag: "${custom_env.SimpleSokoban}"}
)");
  ASSERT_TRUE(local) << local.error().detail;
  EXPECT_EQ(env_manager_of(local->custom_envs.at("Tag")), EnvManager::trajectory);
  EXPECT_TRUE(not_built(*local).empty());
  const auto rock = with(R"(custom_envs:
  Tag:
    env_type: rocknative
    env_manager_cls: ${env_manager_cls}
    agent_runner_cls: roll.pipeline.agentic.agent_runner.rock.PullModeRunner
    env_config: {dataset_name: data/swe.jsonl, model_service_port: 28080, timeout_s: 600}
)");
  ASSERT_TRUE(rock) << rock.error().detail;
  const EnvTemplate& tag = rock->custom_envs.at("Tag");
  EXPECT_EQ(env_manager_of(tag), EnvManager::dialogue);
  EXPECT_TRUE(has_agent_runner(tag));
  EXPECT_EQ(tag.env_config.plugin.args,
            R"({"dataset_name":"data/swe.jsonl","model_service_port":28080})");
  EXPECT_TRUE(not_built(*rock).empty());
  const auto none =
      with("custom_envs: {Tag: {env_type: x_env, env_manager_cls: ProxyEnvManager}}\n");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().detail.find("custom_envs.Tag.agent_runner_cls: missing"),
            std::string::npos)
      << none.error().detail;
  const auto built_in =
      with("agent_runner_cls: a.B\ncustom_envs: {Tag: \"${custom_env.SimpleSokoban}\"}\n");
  ASSERT_FALSE(built_in);
  EXPECT_NE(built_in.error().detail.find("sokoban writes no dialogues"), std::string::npos)
      << built_in.error().detail;
}

TEST(RollExamples, OtherPipelines) {
  RunConfig sft = loaded(R"(sequence_length: 2048
max_steps: 500
pretrain: Qwen/Qwen2.5-7B
prompt_key: instruction
response_key: output
validation: {data_args: {file_name: data/alpaca.json, template: qwen2_5}}
sft_train:
  training_args: {per_device_train_batch_size: 2, gradient_accumulation_steps: 16}
  data_args: {file_name: data/alpaca.json, preprocessing_num_workers: 4}
  strategy_args:
    strategy_name: megatron_train
    strategy_config: {tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2,
                      context_parallel_size: 2}
  device_mapping: list(range(0,8))
)");
  EXPECT_EQ(sft.pipeline, Pipeline::sft);
  EXPECT_EQ(sft.derived.train_dp, 1);
  EXPECT_EQ(sft.derived.optimizer_batch, 32);
  EXPECT_TRUE(not_built(sft).empty());
  EXPECT_TRUE(has(sft.notes, "sft_train.strategy_args.strategy_config",
                  "TP 2 x PP 2 x CP 2: in a run each of its 8 cards takes whole sequences, in the "
                  "batches of 1 copy; the model's state is cut over all of them (ZeRO 3)"));
  RunConfig distill = loaded(R"(defaults: [../config/deepspeed_zero3@_here_]
sequence_length: 1024
student_pretrain: Qwen/Qwen2.5-1.5B-Instruct
teacher_pretrain: Qwen/Qwen2.5-7B-Instruct
kd_objective: forward_kl
student:
  training_args: {per_device_train_batch_size: 1, gradient_accumulation_steps: 1}
  strategy_args: {strategy_name: deepspeed_train, strategy_config: "${deepspeed_zero3}"}
  device_mapping: list(range(0,8))
teacher:
  training_args: {per_device_train_batch_size: 1}
  strategy_args: {strategy_name: deepspeed_infer, strategy_config: "${deepspeed_zero3}"}
  device_mapping: list(range(0,8))
)");
  EXPECT_EQ(distill.pipeline, Pipeline::distill);
  EXPECT_EQ(distill.derived.optimizer_batch, 8);
  RunConfig dpo = loaded(R"(sequence_length: 512
train_batch_size: 64
val_batch_size: 64
num_nodes: 1
num_gpus_per_node: 4
track_name: None
pretrain: Qwen/Qwen3-4B
beta: 0.1
chosen_key: chosen
rejected_key: rejected
actor_train:
  training_args: {per_device_train_batch_size: 16, lr_scheduler_type: constant}
  device_mapping: list(range(0,2))
reference: {device_mapping: [2, 3]}
)");
  EXPECT_EQ(dpo.pipeline, Pipeline::dpo);
  EXPECT_EQ(dpo.derived.groups_per_step, 32) << "P x A x D pairs";
  EXPECT_EQ(dpo.derived.trajectories_per_step, 64);
  EXPECT_TRUE(dpo.derived.is_reference_needed);
  EXPECT_TRUE(has(dpo.notes, "train_batch_size", "a step is one optimizer step"));
  EXPECT_TRUE(not_built(dpo).empty()) << "the reference reads on both cards";
}

// As ROLL's files have it: the reference's cards are named, and nothing is built there.
TEST(RollExamples, WithLoraTheReferenceNeedsNoCards) {
  const std::string dpo = R"(sequence_length: 512
num_gpus_per_node: 8
pretrain: Qwen/Qwen3-4B
pipeline: dpo
actor_train:
  model_args: {lora_target: all-linear, lora_rank: 8}
  training_args: {per_device_train_batch_size: 16, lr_scheduler_type: constant}
  strategy_args: {strategy_name: megatron_train, strategy_config: {tensor_model_parallel_size: 4}}
  device_mapping: list(range(0,4))
reference: {device_mapping: [4, 5, 6, 7]}
)";
  const RunConfig c = loaded(dpo);
  EXPECT_TRUE(c.reference.device_mapping.empty());
  EXPECT_TRUE(has(c.notes, "reference.device_mapping", "with its adapter off"));
  EXPECT_TRUE(has(c.notes, "actor_train.strategy_args.strategy_config", "(ZeRO 2)"));
  EXPECT_TRUE(not_built(c).empty());
}

std::string refusal(const std::string& more) {
  const auto config = load_text(R"(sequence_length: 512
pretrain: Qwen/Qwen3-4B
actor_train: {device_mapping: [0]}
)" + more,
                                "pairs.yaml");
  return config ? "" : config.error().detail;
}

TEST(RollExamples, KeysOfPairsThatContradictEachOther) {
  EXPECT_EQ(refusal("pipeline: rm\ncenter_rewards_coefficient: 0.01\n"), "");
  EXPECT_EQ(refusal("preference_loss: simpo\nbeta: 2\n"), "") << "without a reference";
  EXPECT_EQ(refusal("pipeline: dpo\nuse_reference_model: false\n"), "");
  for (const auto& [more, words] :
       {std::pair{"pipeline: dpo\n", "reference: missing: the loss compares"},
        std::pair{"ipo: true\npreference_loss: hinge\nreference: {device_mapping: [1]}\n",
                  "the file says hinge"},
        std::pair{
            "preference_loss: hinge\nlabel_smoothing: 0.1\nreference: {device_mapping: [1]}\n",
            "sigmoid, robust and simpo"},
        std::pair{"preference_loss: simpo\nanswer_scale: sum\n", "simpo compares means"}})
    EXPECT_NE(refusal(more).find(words), std::string::npos) << more << refusal(more);
  const auto ipo = load_text(R"(sequence_length: 512
pretrain: Qwen/Qwen3-4B
ipo: true
actor_train: {device_mapping: [0]}
reference: {device_mapping: [1]}
)",
                             "ipo.yaml");
  ASSERT_TRUE(ipo) << ipo.error().detail;
  EXPECT_EQ(ipo->pipeline, Pipeline::dpo);
  EXPECT_EQ(ipo->preference.loss, PreferenceKind::ipo);
  EXPECT_EQ(ipo->preference.answer_scale, AnswerScale::sum);
  EXPECT_EQ(ipo->max_steps, -1) << "the epochs decide";
}

}  // namespace
constexpr const char* k_lake = R"(LEN_16k: 16384
LEN_64k: 65536
sequence_length: ${LEN_16k}
parse_tool_call_parameter_to_dict: true
save_steps: 0
rollout_batch_size: 8
val_batch_size: 8
adv_estimator: grpo
init_kl_coef: 0.0
pretrain: Qwen/Qwen2.5-0.5B-Instruct
games:
  Lake: {env_type: frozen_lake, agent_template: "{observation}"}
  Far: {env_type: "math:GSM8K", dataset_name: x}
actor_train: {model_args: {lora_rank: 0}, training_args: {per_device_train_batch_size: 8},
              device_mapping: [0]}
actor_infer: {device_mapping: [1], data_args: {enable_thinking: false}}
train_env_manager: {num_env_groups: 1, group_size: 8, tags: [Lake]}
val_env_manager: {num_env_groups: 1, group_size: 8, tags: [Lake]}
custom_envs:
  Lake: {env_type: frozen_lake, agent_template: "{observation}"}
)";

// Constants in capitals and templates of environments are there for ${...}, named or not.
TEST(Examples, DefinitionsUnderKeysOfTheirOwn) {
  RunConfig c = loaded(k_lake);
  EXPECT_EQ(c.sequence_length, 16384);
  EXPECT_EQ(c.save_steps, 0);
  EXPECT_EQ(c.actor_infer.data_args.chat_template_kwargs, "{\"enable_thinking\":false}");
  EXPECT_TRUE(has(c.notes, "LEN_64k", "a definition for ${...}"));
  EXPECT_TRUE(has(c.notes, "games", "a definition for ${...}"));
  EXPECT_FALSE(has(c.notes, "LEN_16k", "definition"));
  auto refused = load_text(std::string(k_lake) + "lookup: {a: 1}\n", "example.yaml");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("unknown key 'lookup'"), std::string::npos);
  auto near = load_text(std::string(k_lake) + "custom_env2: {A: {env_type: sokoban}}\n", "x.yaml");
  ASSERT_FALSE(near);
  EXPECT_NE(near.error().detail.find("did you mean"), std::string::npos) << near.error().detail;
}

// A manager that shows images has keys of its own; a run refuses the manager by name.
TEST(Examples, AnEnvironmentUnderAnotherManagerIsPlanned) {
  const std::string manager =
      "roll.pipeline.agentic.env_manager.vl_traj_env_manager.VLTrajEnvManager";
  RunConfig c = loaded(std::string(k_lake) +
                       "  Pictures:\n    env_type: sokoban\n    env_manager_cls: " + manager +
                       "\n    user_prompt_format: x\n    pre_step_template: y\n"
                       "    env_config: {dim_x: 6, dim_y: 6, render_mode: rgb_array}\n");
  EXPECT_EQ(c.custom_envs.at("Pictures").env_manager_cls, manager);
}

TEST(Examples, StepEnvironmentsShip) {
  RunConfig c = loaded("defaults: [../config/step_envs@_here_]\n" + std::string(k_lake) +
                       "  Steps: ${custom_env.FrozenLake}\n");
  EXPECT_TRUE(c.custom_envs.at("Steps").env_manager_cls.ends_with(".StepEnvManager"));
}

}  // namespace cohort::config::config_examples_test
