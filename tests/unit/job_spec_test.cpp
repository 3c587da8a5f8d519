/// RunConfig -> plan::JobSpec: which roles, whose arithmetic, which card, which batch.
#include "runtime/job/job_spec.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/config/load.hpp"
#include "runtime/config/verl/verl_load.hpp"
#include "runtime/model/shape.hpp"
#include "tests/support/config_text.hpp"
#include "tests/support/verl_command.hpp"

namespace cohort::actors {
namespace {

using plan::Engine;
using Overrides = std::vector<std::string>;

config::RunConfig seed(const std::string& name, const Overrides& overrides = {}) {
  config::LoadOptions options;
  options.check_files = false;
  auto config =
      config::load(test::source_path("tests/data/seed_configs/" + name), overrides, options);
  EXPECT_TRUE(config) << config.error().detail;
  return config ? *config : config::RunConfig{};
}

job::Job job_for(const config::RunConfig& config, const job::JobOptions& options = {}) {
  auto job = job::job_of(config, options);
  EXPECT_TRUE(job) << job.error().detail;
  return job ? *job : job::Job{};
}

const plan::RoleJob* find_role(const job::Job& job, const std::string& name) {
  auto at = std::ranges::find(job.spec.roles, name, &plan::RoleJob::name);
  return at == job.spec.roles.end() ? nullptr : &*at;
}

bool assumes(const job::Job& job, const std::string& key) {
  return std::ranges::find(job.assumptions, key, &plan::PlanWarning::key) != job.assumptions.end();
}

constexpr auto k_agentic = "agentic_frozen_lake_npu.yaml";
constexpr auto k_qwen3 = "qwen3_8b_rlvr_deepspeed.yaml";
constexpr auto k_multinode = "rlvr_npu_multinode.yaml";

// Messages name the key, its place, and what was looked for.
TEST(JobSpec, AModelThatIsNotThereIsToldByItsKey) {
  const auto refused = [](const Overrides& overrides) {
    auto job = job::job_of(seed(k_agentic, overrides), {});
    return job ? "" : job.error().detail;
  };
  EXPECT_TRUE(refused({"pretrain=/nope"})
                  .starts_with("override 'pretrain=/nope': pretrain: no folder '/nope' with a "
                               "config.json; by its name, model '/nope': no shape ships"))
      << refused({"pretrain=/nope"});
  const std::string own = "actor_train.model_args.model_name_or_path=Nope-7B";
  EXPECT_TRUE(refused({own}).starts_with("override '" + own +
                                         "': actor_train.model_args.model_name_or_path: model "
                                         "'Nope-7B': no shape ships"))
      << refused({own});
}

TEST(JobSpec, RolesOfTheAgenticSeed) {
  job::Job job = job_for(seed(k_agentic));
  ASSERT_EQ(job.spec.roles.size(), 2u);  // the reference is mapped, and nothing needs it
  const plan::RoleJob& train = *find_role(job, "actor_train");
  EXPECT_EQ(train.engine, Engine::deepspeed);
  EXPECT_EQ(train.zero_stage, 3u);
  EXPECT_EQ(train.micro_batch, 2u);
  EXPECT_EQ(train.log_prob_micro_batch, 2u);
  EXPECT_EQ(train.param_bytes, 2u);
  EXPECT_TRUE(train.gradient_checkpointing);
  EXPECT_EQ(train.cards, (std::vector<CardId>{{0}, {1}, {2}, {3}}));
  const plan::RoleJob& infer = *find_role(job, "actor_infer");
  EXPECT_EQ(infer.engine, Engine::vllm);
  EXPECT_DOUBLE_EQ(infer.memory_utilization, 0.8);
  EXPECT_EQ(infer.block_tokens, 16u);
  EXPECT_EQ(job.spec.sequence_length, 8192u);
  EXPECT_EQ(job.model_name, "Qwen/Qwen2.5-0.5B-Instruct");
  EXPECT_EQ(model::parameter_count(job.spec.model), 494'032'768u);
}

TEST(JobSpec, ReferenceAndItsOffloadOfTheMultiNodeSeed) {
  job::Job job = job_for(seed(k_multinode));
  ASSERT_EQ(job.spec.roles.size(), 3u);
  EXPECT_TRUE(find_role(job, "actor_train")->offload_optimizer);
  EXPECT_FALSE(find_role(job, "actor_train")->offload_params);
  EXPECT_EQ(find_role(job, "reference")->engine, Engine::hf);
  EXPECT_EQ(find_role(job, "reference")->log_prob_micro_batch, 8u);
  EXPECT_EQ(find_role(job, "actor_infer")->max_model_len, 8000u);
  EXPECT_EQ(job.spec.prompt_length, 2048u);
  EXPECT_EQ(job.spec.response_length, 4096u);
  EXPECT_EQ(job.spec.cards_per_node, 8u);
}

TEST(JobSpec, EngineFollowsTheStrategysName) {
  struct Case {
    std::string strategy;
    Engine engine;
  };
  for (const Case& x :
       {Case{"deepspeed_train", Engine::deepspeed}, Case{"fsdp2_train", Engine::fsdp},
        Case{"megatron_train", Engine::megatron}}) {
    job::Job job = job_for(seed(k_agentic, {"actor_train.strategy_args.strategy_name=" + x.strategy,
                                            "actor_train.strategy_args.strategy_config=~"}));
    EXPECT_EQ(find_role(job, "actor_train")->engine, x.engine) << x.strategy;
    EXPECT_EQ(find_role(job, "actor_train")->engine_asked, x.strategy);
  }
}

TEST(JobSpec, MegatronCutsExpertsByTensorParallelToo) {
  const std::string strategy = "actor_train.strategy_args.strategy_";
  job::Job job =
      job_for(seed(k_multinode, {"pretrain=Qwen/Qwen3-30B-A3B", strategy + "config=~",
                                 strategy + "name=megatron_train",
                                 "+" + strategy + "config.tensor_model_parallel_size=2",
                                 "+" + strategy + "config.expert_model_parallel_size=4",
                                 "+" + strategy + "config.use_distributed_optimizer=true"}));
  const plan::RoleJob& train = *find_role(job, "actor_train");
  EXPECT_EQ(train.tp, 2u);
  EXPECT_EQ(train.ep, 4u);
  EXPECT_EQ(train.expert_tp, 2u);
  EXPECT_EQ(train.zero_stage, 1u);
}

TEST(JobSpec, CriticIsBuiltForGaeAlone) {
  Overrides critic = {"+critic.device_mapping=list(range(0,8))",
                      "+critic.strategy_args.strategy_name=deepspeed_train",
                      "+critic.model_args.dtype=bf16"};
  job::Job with = job_for(seed(k_qwen3, critic));
  ASSERT_NE(find_role(with, "critic"), nullptr);
  EXPECT_FALSE(assumes(with, "adv_estimator"));
  critic.push_back("+adv_estimator=grpo");
  EXPECT_EQ(find_role(job_for(seed(k_qwen3, critic)), "critic"), nullptr);
  job::Job without = job_for(seed(k_qwen3));  // the excerpt leaves adv_estimator out: gae
  EXPECT_EQ(find_role(without, "critic"), nullptr);
  EXPECT_TRUE(assumes(without, "adv_estimator"));
}

TEST(JobSpec, RewardWithCardsIsARole) {
  job::Job job =
      job_for(seed(k_qwen3, {"+rewards.math_rule.device_mapping=list(range(14,16))",
                             "+rewards.math_rule.strategy_args.strategy_name=hf_infer"}));
  const plan::RoleJob* reward = find_role(job, "rewards.math_rule");
  ASSERT_NE(reward, nullptr);
  EXPECT_EQ(reward->cards.size(), 2u);
}

struct CardCase {
  const char* name;
  Overrides overrides;
  std::string card, wanted;
  bool is_assumed;
};

TEST(JobSpec, CardTypeIsSaidOrAssumedAndThenSaid) {
  for (const CardCase& x : {
           CardCase{"HCCL_* in system_envs", {}, "", "A2", true},
           CardCase{"--card wins", {"+cards.type=A2"}, "H200", "H200", false},
           CardCase{"cards.type", {"+cards.type=A3"}, "", "A3", false},
           CardCase{"platform cuda", {"+platform=cuda"}, "", "H100", true},
           CardCase{"platform npu", {"+platform=npu"}, "", "A2", true},
           CardCase{"platform cpu", {"+platform=cpu"}, "", "cpu", false},
       }) {
    job::JobOptions options;
    options.card = x.card;
    job::Job job = job_for(seed(k_agentic, x.overrides), options);
    EXPECT_EQ(job.spec.card.name, x.wanted) << x.name;
    EXPECT_EQ(assumes(job, "card"), x.is_assumed) << x.name;
  }
  job::JobOptions unknown;
  unknown.card = "B200";
  auto job = job::job_of(seed(k_agentic), unknown);
  ASSERT_FALSE(job);
  EXPECT_NE(job.error().detail.find("A100-80"), std::string::npos);
}

TEST(JobSpec, CpuPlatformIsTheBuiltInEngineWithTheConfigsBytes) {
  auto config =
      test::load_small({"platform=cpu", "+cards.memory_bytes=512MiB", "+cards.reserve_bytes=8MiB",
                        "+cards.threads_per_card=3", "+max_running_requests=5"});
  ASSERT_TRUE(config) << config.error().detail;
  job::JobOptions options;
  options.vocab_size = 33;
  job::Job job = job_for(*config, options);
  EXPECT_EQ(job.spec.card.capacity_bytes, uint64_t{512} << 20);
  EXPECT_EQ(job.spec.card.reserve_bytes, uint64_t{8} << 20);
  EXPECT_EQ(job.spec.model.vocab_size, 33u);
  EXPECT_EQ(job.spec.offload, plan::OffloadPolicy::never);  // the key's default: what a run does
  for (const plan::RoleJob& role : job.spec.roles) {
    EXPECT_EQ(role.engine, Engine::builtin);
    EXPECT_EQ(role.threads, 3u);
    EXPECT_EQ(role.max_running, 5u);
    EXPECT_EQ(role.packed_tokens, 2048u);
    EXPECT_EQ(role.zero_stage, 0u);
  }
}

TEST(JobSpec, ObjectsLeaveTheirCardsAsRollDoesUnlessTheKeySaysOtherwise) {
  EXPECT_EQ(job_for(seed(k_agentic)).spec.offload, plan::OffloadPolicy::step);
  EXPECT_EQ(job_for(seed(k_agentic, {"+placement.offload=never"})).spec.offload,
            plan::OffloadPolicy::never);
}

TEST(JobSpec, ShapeOfALocalFolderWinsOverTheTable) {
  config::RunConfig config = seed(k_multinode);
  EXPECT_EQ(job::model_names(config), (std::vector<std::string>{"/data/models/Qwen2.5-7B"}));
  job::JobOptions options;
  model::ModelShape shape = *model::find_model("Qwen3-4B");
  options.models["/data/models/Qwen2.5-7B"] = shape;
  EXPECT_EQ(job_for(config, options).spec.model, shape);
}

TEST(JobSpec, UnknownModelNamesTheRoleAndTheWayOut) {
  auto job = job::job_of(seed(k_agentic, {"pretrain=acme/Frob-9000B"}));
  ASSERT_FALSE(job);
  EXPECT_NE(job.error().detail.find("pretrain: "), std::string::npos) << job.error().detail;
  EXPECT_NE(job.error().detail.find("config.json"), std::string::npos) << job.error().detail;
}

// verl's exclude_modules becomes an expression, which takes the other layers.
TEST(JobSpec, ExcludedModulesHaveNoAdapter) {
  const auto targets = [](const Overrides& more) {
    Overrides words = test::quickstart(more);
    words.push_back("actor_rollout_ref.model.lora_rank=8");
    auto config = config::load_verl(words);
    EXPECT_TRUE(config) << config.error().detail;
    auto lora = job::lora_of(*config, *model::find_model("Qwen2.5-0.5B"));
    EXPECT_TRUE(lora) << lora.error().detail;
    return lora && *lora ? (*lora)->targets : Overrides{};
  };
  const std::string model = "actor_rollout_ref.model.";
  EXPECT_EQ(targets({}).size(), 7U);
  EXPECT_EQ(targets({model + "exclude_modules='.*visual.*'"}), targets({}));
  EXPECT_EQ(targets({model + "exclude_modules=[q_proj,gate_proj,up_proj]"}),
            (Overrides{"down_proj", "k_proj", "o_proj", "v_proj"}));
  EXPECT_EQ(
      targets({model + "target_modules=[q_proj,v_proj]", model + "exclude_modules='.*\\.v_proj'"}),
      (Overrides{"q_proj"}));
}

TEST(JobSpec, VerlKeysBecomeTheSameWords) {
  auto config = config::load_verl(
      {"algorithm.adv_estimator=grpo", "data.train_files=/data/gsm8k/train.parquet",
       "data.train_batch_size=128", "data.max_prompt_length=512", "data.max_response_length=128",
       "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct",
       "actor_rollout_ref.actor.ppo_mini_batch_size=64",
       "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=20",
       "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=40",
       "actor_rollout_ref.rollout.tensor_model_parallel_size=2",
       "actor_rollout_ref.rollout.name=vllm", "actor_rollout_ref.rollout.n=5",
       "trainer.n_gpus_per_node=8"},
      {.check_files = false});
  ASSERT_TRUE(config) << config.error().detail;
  job::Job job = job_for(*config);
  EXPECT_EQ(job.spec.dialect, plan::Dialect::verl);
  EXPECT_EQ(job.spec.mode, plan::PlacementMode::timeshare);
  EXPECT_TRUE(job.spec.overlap_is_verl_pool);
  EXPECT_EQ(find_role(job, "actor_train")->engine, Engine::fsdp);
  EXPECT_EQ(find_role(job, "actor_train")->micro_batch, 20u);
  EXPECT_EQ(find_role(job, "actor_infer")->tp, 2u);
  ASSERT_TRUE(job.spec.batch);
  EXPECT_EQ(job.spec.batch->kind, plan::BatchKind::verl);
  EXPECT_EQ(job.spec.batch->mini_batch_size, 64u);
  EXPECT_EQ(job.spec.batch->group_size, 5u);
}

// Shared cards with a judge, as ROLL's example with five domains has them.
TEST(JobSpec, AJudgeOfUnknownShapeIsLeftOutOfThePlanAndNamed) {
  auto config = config::load_text(R"yaml(rollout_batch_size: 64
prompt_length: 2048
response_length: 4096
num_return_sequences_in_group: 8
adv_estimator: grpo
pretrain: Qwen/Qwen2.5-7B
placement: {mode: timeshare}
actor_train:
  training_args: {per_device_train_batch_size: 1, gradient_accumulation_steps: 32}
  data_args: {file_name: [a.jsonl], domain_interleave_probs: {llm_judge: 1.0}}
  strategy_args: {strategy_name: megatron_train, strategy_config: {use_distributed_optimizer: true}}
  device_mapping: list(range(0,16))
actor_infer:
  strategy_args: {strategy_name: vllm}
  device_mapping: list(range(0,12))
reference: {device_mapping: "list(range(0,16))"}
rewards:
  llm_judge:
    worker_cls: roll.pipeline.rlvr.rewards.llm_judge_reward_worker.LLMJudgeRewardWorker
    judge_model_type: inference
    model_args: {model_name_or_path: someone/Qwen2.5-7B-Judge, model_type: trl}
    strategy_args: {strategy_name: vllm}
    device_mapping: list(range(12,16))
)yaml",
                                  "judged.yaml");
  ASSERT_TRUE(config) << config.error().detail;
  const job::Job job = job_for(*config);
  EXPECT_EQ(find_role(job, "rewards.llm_judge"), nullptr);
  EXPECT_TRUE(assumes(job, "rewards.llm_judge"));
  auto plan = plan::plan_job(job.spec);
  EXPECT_TRUE(plan) << plan.error().detail;
}

TEST(JobSpec, StudentAndTeacherOfADistillationHaveShapesOfTheirOwn) {
  auto config = config::load_text(R"yaml(sequence_length: 1024
student_pretrain: Qwen/Qwen2.5-7B-Instruct
teacher_pretrain: Qwen/Qwen2.5-14B-Instruct
placement: {mode: timeshare}
student:
  training_args: {per_device_train_batch_size: 1, gradient_accumulation_steps: 1}
  strategy_args: {strategy_name: deepspeed_train, strategy_config: {zero_optimization: {stage: 3}}}
  device_mapping: list(range(0,8))
teacher:
  training_args: {per_device_train_batch_size: 1}
  strategy_args: {strategy_name: deepspeed_infer, strategy_config: {zero_optimization: {stage: 3}}}
  device_mapping: list(range(0,8))
)yaml",
                                  "distill.yaml");
  ASSERT_TRUE(config) << config.error().detail;
  const job::Job job = job_for(*config);
  EXPECT_EQ(job.spec.model.num_hidden_layers, 28);
  const plan::RoleJob* teacher = find_role(job, "reference");
  ASSERT_NE(teacher, nullptr);
  ASSERT_TRUE(teacher->model);
  EXPECT_EQ(teacher->model->num_hidden_layers, 48);
}

/// A config in the form of ROLL's examples, all roles on all of `cards`.
std::string colocated(const std::string& pretrain, int cards, const std::string& train,
                      const std::string& infer) {
  const std::string mapping = "\"list(range(0," + std::to_string(cards) + "))\"";
  return "placement: {mode: timeshare}\npretrain: " + pretrain +
         "\nrollout_batch_size: 256\nnum_return_sequences_in_group: 8\nprompt_length: 2048\n"
         "response_length: 4096\nadv_estimator: grpo\ninit_kl_coef: 0.0\nactor_train:\n"
         "  data_args: {file_name: [a.jsonl]}\n  training_args: {per_device_train_batch_size: 1}\n"
         "  strategy_args: {strategy_name: megatron_train, strategy_config: {" +
         train + "}}\n  device_mapping: " + mapping +
         "\nactor_infer:\n  strategy_args: {strategy_name: vllm, strategy_config: {" + infer +
         "}}\n  device_mapping: " + mapping +
         "\nrewards:\n  math_rule:\n    worker_cls: "
         "x.math_rule_reward_worker.MathRuleRewardWorker\n";
}

TEST(JobSpec, TheModelsOfRollsExamplesArePlanned) {
  struct Example {
    const char *pretrain, *train, *infer;
    int cards;
    const char* left_out;
  };
  const std::string dot = "use_distributed_optimizer: true, ";
  for (const Example& x : {
           Example{"Qwen/Qwen3-235B-A22B",
                   "tensor_model_parallel_size: 4, pipeline_model_parallel_size: 8, "
                   "virtual_pipeline_model_parallel_size: 6, expert_model_parallel_size: 8",
                   "tensor_parallel_size: 8", 256, ""},
           {"Qwen/Qwen3-Next-80B-A3B-Instruct",
            "expert_model_parallel_size: 8, pipeline_model_parallel_size: 4",
            "tensor_parallel_size: 4", 64, ""},
           {"Qwen/Qwen3.5-35B-A3B",
            "expert_model_parallel_size: 8, pipeline_model_parallel_size: 2",
            "tensor_parallel_size: 2", 16, "vision"},
           {"Qwen/Qwen2.5-VL-7B-Instruct", "tensor_model_parallel_size: 4", "block_size: 16", 16,
            "vision"},
           {"Qwen/Qwen3-Omni-30B-A3B-Thinking", "expert_model_parallel_size: 8",
            "tensor_parallel_size: 4", 32, "vision and audio"},
       }) {
    auto config =
        config::load_text(colocated(x.pretrain, x.cards, dot + x.train, x.infer), "example.yaml");
    ASSERT_TRUE(config) << x.pretrain << ": " << config.error().detail;
    const job::Job job = job_for(*config);
    auto plan = plan::plan_job(job.spec);
    EXPECT_TRUE(plan) << x.pretrain << ": " << plan.error().detail;
    const auto note = std::ranges::find(job.assumptions, "actor_train", &plan::PlanWarning::key);
    EXPECT_EQ(note != job.assumptions.end(), x.left_out[0] != 0) << x.pretrain;
    if (note == job.assumptions.end()) continue;
    EXPECT_NE(note->text.find(x.left_out), std::string::npos) << note->text;
  }
}

// ROLL copies trajectories until they fill a batch: a plan counts it so, a run refuses it.
TEST(JobSpec, AnAgenticBatchThatDoesNotDivideIsPlanned) {
  const config::RunConfig config = seed(k_agentic, {"rollout_batch_size=640"});
  const job::Job job = job_for(config);
  auto plan = plan::plan_job(job.spec);
  ASSERT_TRUE(plan) << plan.error().detail;
  EXPECT_EQ(plan->batch->optimizer_steps_per_step, 2u);  // 640 / 512, filled up
}

}  // namespace
}  // namespace cohort::actors
