#include <gtest/gtest.h>

#include "runtime/config/load.hpp"

namespace cohort::config::config_broken_test {
namespace {

// Each line of the two files is broken in one way; the first line of the error says where and what.
constexpr const char* k_agentic = R"(exp_name: broken
defaults: []
seed: 42
max_steps: 4
eval_steps: 2
rollout_batch_size: 16
val_batch_size: 8
sequence_length: 128
adv_estimator: grpo
init_kl_coef: 0.0
loss_agg_mode: token-mean
reward_normalization: {grouping: traj_group_id, method: mean_std}
pretrain: Qwen/Qwen2.5-0.5B
model:
  hidden_size: 32
  num_attention_heads: 4
  num_key_value_heads: 2
actor_train:
  model_args:
    dtype: bf16
  training_args:
    learning_rate: 1.0e-6
    per_device_train_batch_size: 4
    gradient_accumulation_steps: 2
  strategy_args:
    strategy_name: deepspeed_train
    strategy_config:
      zero_optimization:
        stage: 3
        offload_optimizer: {device: cpu, pin_memory: true}
  device_mapping: list(range(0,1))
actor_infer:
  generating_args:
    max_new_tokens: 4
    top_p: 0.99
  strategy_args:
    strategy_name: vllm
    strategy_config:
      gpu_memory_utilization: 0.8
      tensor_parallel_size: 1
  device_mapping: [1]
system_envs: {OMP_NUM_THREADS: "1"}
train_env_manager:
  num_env_groups: 4
  group_size: 4
  tags: [Lake, Pond]
  num_groups_partition: [2, 2]
val_env_manager: {num_env_groups: 8, group_size: 1, tags: [Lake]}
custom_envs:
  Lake:
    env_type: frozen_lake
    agent_template: "{observation}"
    env_config:
      size: 4
  Pond: ${custom_envs.Lake}
cards:
  memory_bytes: 1GiB
)";

constexpr const char* k_rlvr = R"(rollout_batch_size: 32
prompt_length: 2048
response_length: 8192
num_return_sequences_in_group: 8
adv_estimator: reinforce
init_kl_coef: 0
async_generation_ratio: 0
pretrain: Qwen/Qwen3-8B-Base
actor_train:
  training_args:
    per_device_train_batch_size: 1
    gradient_accumulation_steps: 32
  data_args:
    file_name: data/math.jsonl
    domain_interleave_probs: {math_rule: 1}
    messages: messages
  device_mapping: list(range(0,8))
actor_infer:
  strategy_args:
    strategy_name: vllm
    strategy_config:
      tensor_parallel_size: 2
  device_mapping: list(range(8,12))
rewards:
  math_rule:
    worker_cls: roll.pipeline.rlvr.rewards.math_rule_reward_worker.MathRuleRewardWorker
    tag_included: [aime]
    world_size: 8
    query_filter_config: {type: mean_filter, filter_args: {threshold_up: 0.9}}
validation:
  data_args: {template: qwen3}
)";

struct Broken {
  std::string from;  // a piece of the file
  std::string to;
  std::string error;  // first line
};

void expect_broken(const std::string& base, const std::vector<Broken>& cases) {
  for (const Broken& x : cases) {
    std::string text = base;
    size_t at = text.find(x.from);
    ASSERT_NE(at, std::string::npos) << x.from;
    text.replace(at, x.from.size(), x.to);
    auto config = load_text(text, "a.yaml");
    ASSERT_FALSE(config) << x.to;
    EXPECT_EQ(config.error().code, Errc::config) << x.to;
    const std::string& detail = config.error().detail;
    EXPECT_EQ(detail.substr(0, detail.find('\n')), x.error);
  }
}

TEST(BrokenConfig, BasesAreWhole) {
  for (const char* base : {k_agentic, k_rlvr}) {
    auto config = load_text(base, "a.yaml");
    EXPECT_TRUE(config) << config.error().detail;
  }
}

TEST(BrokenConfig, UnknownKeys) {
  expect_broken(
      k_agentic,
      {
          {"max_steps: 4", "max_step: 4",
           "a.yaml:4:1: unknown key 'max_step'; did you mean 'max_steps'?"},
          {"training_args:", "trainings_args:",
           "a.yaml:21:3: unknown key 'actor_train.trainings_args'; did you mean 'training_args'?"},
          {"learning_rate:", "learning_rates:",
           "a.yaml:22:5: unknown key 'actor_train.training_args.learning_rates'; did you mean "
           "'learning_rate'?"},
          {"      zero_optimization:", "      zero_optimisation:",
           "a.yaml:28:7: unknown key "
           "'actor_train.strategy_args.strategy_config.zero_optimisation'; did you mean "
           "'zero_optimization'?"},
          {"        stage: 3", "        stages: 3",
           "a.yaml:29:9: unknown key "
           "'actor_train.strategy_args.strategy_config.zero_optimization.stages'; did you mean "
           "'stage'?"},
          {"pin_memory: true", "pin_memry: true",
           "a.yaml:30:42: unknown key "
           "'actor_train.strategy_args.strategy_config.zero_optimization.offload_optimizer.pin_"
           "memry'; "
           "did you mean 'pin_memory'?"},
          {"gpu_memory_utilization: 0.8", "gpu_memory_utilisation: 0.8",
           "a.yaml:39:7: unknown key "
           "'actor_infer.strategy_args.strategy_config.gpu_memory_utilisation'; did you mean "
           "'gpu_memory_utilization'?"},
          {"tensor_parallel_size: 1", "tensor_model_parallel_size: 1",
           "a.yaml:40:7: unknown key "
           "'actor_infer.strategy_args.strategy_config.tensor_model_parallel_size'; did you mean "
           "'tensor_parallel_size'?"},
          {"num_groups_partition: [2", "num_group_partition: [2",
           "a.yaml:47:3: unknown key 'train_env_manager.num_group_partition'; did you mean "
           "'num_groups_partition'?"},
          {"      size: 4", "      sizes: 4",
           "a.yaml:54:7: unknown key 'custom_envs.Lake.env_config.sizes'; did you mean 'size'?"},
          {"  memory_bytes: 1GiB", "  memry_bytes: 1GiB",
           "a.yaml:57:3: unknown key 'cards.memry_bytes'; did you mean 'memory_bytes'?"},
          {"grouping: traj_group_id", "groups: traj_group_id",
           "a.yaml:12:24: unknown key 'reward_normalization.groups'"},
      });
  expect_broken(
      k_rlvr,
      {
          {"worker_cls:", "worker_class:",
           "a.yaml:26:5: unknown key 'rewards.math_rule.worker_class'; did you mean 'worker_cls'?"},
          {"filter_args:", "filter_arg:",
           "a.yaml:29:46: unknown key 'rewards.math_rule.query_filter_config.filter_arg'; did "
           "you mean 'filter_args'?"},
          {"threshold_up:", "thresh_up:",
           "a.yaml:29:60: unknown key "
           "'rewards.math_rule.query_filter_config.filter_args.thresh_up'; did you mean "
           "'threshold_up'?"},
          {"template: qwen3", "templat: qwen3",
           "a.yaml:31:15: unknown key 'validation.data_args.templat'; did you mean 'template'?"},
      });
}

TEST(BrokenConfig, ValuesOfTheWrongKind) {
  expect_broken(
      k_agentic,
      {
          {"max_steps: 4", "max_steps: many",
           "a.yaml:4:12: max_steps: expected an integer in -1..10000000, got 'many'"},
          {"seed: 42", "seed: 4.2",
           "a.yaml:3:7: seed: expected an integer of at least 0, got '4.2'"},
          {"learning_rate: 1.0e-6", "learning_rate: fast",
           "a.yaml:22:20: actor_train.training_args.learning_rate: expected a number of at least "
           "0, got 'fast'"},
          {"tags: [Lake, Pond]", "tags: Lake",
           "a.yaml:46:9: train_env_manager.tags: expected a list of texts, got 'Lake'"},
          {"cards:\n  memory_bytes: 1GiB", "cards: 3",
           "a.yaml:56:8: cards: expected a section of keys, got '3'"},
          {"{OMP_NUM_THREADS: \"1\"}", "[OMP_NUM_THREADS]",
           "a.yaml:42:14: system_envs: expected a map of names to texts, got a list"},
          {"[2, 2]", "[2, two]",
           "a.yaml:47:25: train_env_manager.num_groups_partition: expected a list of integers of "
           "at least 0, got 'two'"},
          {"1GiB", "1GiBi",
           "a.yaml:57:17: cards.memory_bytes: expected a number of bytes above 0 (as 268435456, "
           "256MiB or 1GiB), got '1GiBi'"},
          {"stage: 3", "stage: three",
           "a.yaml:29:16: actor_train.strategy_args.strategy_config.zero_optimization.stage: "
           "expected an integer in 0..3, got 'three'"},
      });
  expect_broken(
      k_rlvr, {{"{math_rule: 1}", "{math_rule: all}",
                "a.yaml:15:30: actor_train.data_args.domain_interleave_probs: expected a number in "
                "0..1 for math_rule, got 'all'"}});
}

TEST(BrokenConfig, ValuesOutOfRange) {
  expect_broken(
      k_agentic,
      {
          {"max_steps: 4", "max_steps: 0", "a.yaml:4:1: max_steps: 0 steps; give at least 1"},
          {"top_p: 0.99", "top_p: 1.5",
           "a.yaml:35:12: actor_infer.generating_args.top_p: expected a number above 0 and of at "
           "most 1, got '1.5'"},
          {"stage: 3", "stage: 4",
           "a.yaml:29:16: actor_train.strategy_args.strategy_config.zero_optimization.stage: "
           "expected an integer in 0..3, got '4'"},
          {"gpu_memory_utilization: 0.8", "gpu_memory_utilization: 8",
           "a.yaml:39:31: actor_infer.strategy_args.strategy_config.gpu_memory_utilization: "
           "expected a number above 0 and of at most 1, got '8'"},
          {"group_size: 4", "group_size: 0",
           "a.yaml:45:15: train_env_manager.group_size: expected an integer in 1..65536, got '0'"},
          {"size: 4\n  Pond", "size: 1\n  Pond",
           "a.yaml:54:13: custom_envs.Lake.env_config.size: expected an integer in 2..64, got '1'"},
      });
  expect_broken(
      k_rlvr,
      {{"async_generation_ratio: 0", "async_generation_ratio: 0.5",
        "a.yaml:7:1: async_generation_ratio: 0.5 is between 0 and 1; rlvr takes 0, or 1 and "
        "more"}});
}

TEST(BrokenConfig, NamesThatDoNotExist) {
  expect_broken(
      k_agentic,
      {
          {"adv_estimator: grpo", "adv_estimator: gpro",
           "a.yaml:9:16: adv_estimator: expected one of gae, grpo, reinforce, gigpo, "
           "step_reinforce, agentic_reinforce, reinforce_plus_plus, "
           "reinforce_plus_plus_baseline, rloo, remax, opo, grpo_passk, gpg, "
           "optimal_token_baseline, dr_grpo, rloo_vectorized, gdpo, got 'gpro'; did you mean "
           "'grpo'?"},
          {"token-mean", "token_mean",
           "a.yaml:11:16: loss_agg_mode: expected one of token-mean, seq-mean-token-sum, "
           "seq-mean-token-mean, seq-mean-token-sum-norm, seq-mean-token-constant, token-sum, got "
           "'token_mean'; did you mean "
           "'token-mean'?"},
          {"dtype: bf16", "dtype: bfloat16",
           "a.yaml:20:12: actor_train.model_args.dtype: expected one of fp32, bf16, fp16, got "
           "'bfloat16'"},
          {"deepspeed_train", "deepspeed_trian",
           "a.yaml:26:20: actor_train.strategy_args.strategy_name: expected one of "
           "deepspeed_train, fsdp2_train, megatron_train, diffusion_deepspeed_train, "
           "deepspeed_infer, fsdp2_infer, megatron_infer, hf_infer, vllm, sglang, mock_infer, "
           "got 'deepspeed_trian'; did you mean 'deepspeed_train'?"},
          {"strategy_name: vllm", "strategy_name: trtllm",
           "a.yaml:37:20: actor_infer.strategy_args.strategy_name: expected one of "
           "deepspeed_train, fsdp2_train, megatron_train, diffusion_deepspeed_train, "
           "deepspeed_infer, fsdp2_infer, megatron_infer, hf_infer, vllm, sglang, mock_infer, "
           "got 'trtllm'"},
          {"device: cpu", "device: nvme",
           "a.yaml:30:37: "
           "actor_train.strategy_args.strategy_config.zero_optimization.offload_optimizer.device: "
           "expected cpu or none (nvme is not built in), got 'nvme'"},
          {"frozen_lake", "frozen_lak",
           "a.yaml:51:15: custom_envs.Lake.env_type: there is no environment 'frozen_lak'; did "
           "you mean 'frozen_lake'?"},
          {"tags: [Lake, Pond]", "tags: [Lake, Ponds]",
           "a.yaml:46:3: train_env_manager.tags: there is no custom_envs.Ponds; did you mean "
           "'Pond'?"},
          {"method: mean_std", "method: mean-std",
           "a.yaml:12:57: reward_normalization.method: expected one of identity, mean, mean_std, "
           "asym_clip, got 'mean-std'; did you mean 'mean_std'?"},
      });
  expect_broken(
      k_rlvr,
      {{"type: mean_filter", "type: mean",
        "a.yaml:29:33: rewards.math_rule.query_filter_config.type: expected one of no_filter, "
        "mean_filter, std_filter, got 'mean'"}});
}

TEST(BrokenConfig, Composition) {
  expect_broken(
      k_agentic,
      {
          {"seed: 42", "seed: 42\nseed: 43", "a.yaml:4:1: duplicate key 'seed' (first at line 3)"},
          {"defaults: []", "defaults: [../config/none@_here_]",
           "a.yaml:2:12: defaults entry '../config/none@_here_': no file ../config/none.yaml, "
           "and no shipped fragment 'none' (shipped: deepspeed_zero, deepspeed_zero2, "
           "deepspeed_zero2_cpuoffload, deepspeed_zero3, deepspeed_zero3_cpuoffload, envs, "
           "step_envs, "
           "traj_envs, traj_envs_gem_games, traj_envs_gem_math, traj_envs_gem_qa, "
           "traj_envs_gem_rg, vl_traj_envs)"},
          {"${custom_envs.Lake}", "${custom_envs.Lakes}",
           "a.yaml:55:9: '${custom_envs.Lakes}' names no key: there is no 'Lakes' in "
           "'custom_envs'; did you mean 'Lake'?"},
          {"${custom_envs.Lake}", "${custom_envs.Pond}",
           "a.yaml:55:9: references go in a circle: custom_envs.Pond -> custom_envs.Pond"},
          {"seed: 42", "seed: ${oc.env:COHORT_NO_SUCH_VARIABLE}",
           "a.yaml:3:7: environment variable COHORT_NO_SUCH_VARIABLE is not set and has no "
           "default (write ${oc.env:COHORT_NO_SUCH_VARIABLE,value})"},
          {"tags: [Lake, Pond]", "tags: [Lake, Pond",
           "a.yaml:47:23: not valid YAML: end of sequence flow not found"},
      });
}

TEST(BrokenConfig, Cards) {
  expect_broken(
      k_agentic,
      {
          {"list(range(0,1))", "list(range(0,1)",
           "a.yaml:31:19: actor_train.device_mapping: 'list(range(0,1)': expected '+' or ')' at "
           "character 16, found the end (forms: [0, 1], list(range(0,4)) + list(range(8,12)))"},
          {"list(range(0,1))", "open('x')",
           "a.yaml:31:19: actor_train.device_mapping: 'open('x')': expected list(...), "
           "range(...) or [...] at character 1, found 'open('x')' (forms: [0, 1], "
           "list(range(0,4)) + list(range(8,12)))"},
          {"device_mapping: [1]", "device_mapping: [1, 1]",
           "a.yaml:41:19: actor_infer.device_mapping: card id 1 is listed twice"},
          {"  device_mapping: [1]\n", "",
           "a.yaml:32:1: actor_infer.device_mapping: missing: the role needs at least one card"},
      });
  expect_broken(
      k_rlvr, {{"list(range(8,12))", "list(range(8,11))",
                "a.yaml:23:3: actor_infer.device_mapping: 3 cards are not a multiple of 2 = tensor "
                "parallel 2 x pipeline parallel 1; nearest that work: 2, 4"}});
}

TEST(BrokenConfig, SizesThatDoNotDivide) {
  expect_broken(
      k_agentic,
      {
          {"rollout_batch_size: 16", "rollout_batch_size: 18",
           "a.yaml:6:1: rollout_batch_size: 18 is not a multiple of train_env_manager.group_size "
           "4; nearest that work: 16, 20"},
          {"val_batch_size: 8", "val_batch_size: 12",
           "a.yaml:7:1: val_batch_size: 12 is not a multiple of 8 = "
           "val_env_manager.num_env_groups 8 x group_size 1; nearest that work: 8, 16"},
          {"num_groups_partition: [2, 2]", "num_groups_partition: [2, 3]",
           "a.yaml:47:3: train_env_manager.num_groups_partition: 2 + 3 = 5, not num_env_groups 4"},
          {"num_groups_partition: [2, 2]", "num_groups_partition: [4]",
           "a.yaml:47:3: train_env_manager.num_groups_partition: 1 numbers for 2 tags"},
          {"hidden_size: 32", "hidden_size: 30",
           "a.yaml:15:3: model.hidden_size: 30 is not a multiple of num_attention_heads 4; "
           "nearest that work: 28, 32; or give head_dim"},
          {"num_key_value_heads: 2", "num_key_value_heads: 3",
           "a.yaml:17:3: model.num_key_value_heads: 3 does not divide num_attention_heads 4"},
      });
  expect_broken(
      k_rlvr,
      {{"rollout_batch_size: 32", "rollout_batch_size: 40",
        "a.yaml:1:1: rollout_batch_size: 40 prompts x num_return_sequences_in_group 8 = 320 "
        "is not a multiple of 256 = per_device_train_batch_size 1 x "
        "gradient_accumulation_steps 32 x 8 train cards; nearest that work: 32, 64"}});
}

TEST(BrokenConfig, RulesAcrossKeys) {
  expect_broken(
      k_agentic,
      {
          {"sequence_length: 128", "",
           "a.yaml:1:1: sequence_length: missing: give sequence_length, or response_length (it "
           "adds prompt_length)"},
          {"init_kl_coef: 0.0", "init_kl_coef: 0.1",
           "a.yaml:10:1: init_kl_coef: init_kl_coef 0.1 needs a reference role with a "
           "device_mapping; set it to 0, or add `reference:`"},
          {"\"{observation}\"", "\"{observations}\"",
           "a.yaml:52:5: custom_envs.Lake.agent_template: has no {observation}: the policy would "
           "see nothing"},
      });
  expect_broken(
      k_rlvr,
      {
          {"prompt_length: 2048", "prompt_length: 2048\nsequence_length: 2048",
           "a.yaml:2:1: prompt_length: 2048 leaves nothing of sequence_length 2048 for an answer"},
          {"messages: messages", "messages: messages\n    prompt: question",
           "a.yaml:16:5: actor_train.data_args.messages: not together with prompt: give the "
           "column of one of them"},
          {"pretrain: Qwen/Qwen3-8B-Base", "",
           "a.yaml:1:1: pretrain: missing: give a checkpoint folder, or a `model` section for a "
           "random start"},
      });
}

}  // namespace
}  // namespace cohort::config::config_broken_test
