// Keys of on-policy distillation in both dialects: what they mean, and what is told of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/config/load.hpp"
#include "runtime/config/role_weights.hpp"
#include "runtime/config/roll/not_built.hpp"
#include "tests/support/same_settings.hpp"
#include "tests/support/verl_command.hpp"

namespace cohort::config {
namespace {

using test::quickstart;
using test::warning_of;

/// In the shape of ROLL's file for examples/start_onpolicy_distill_pipeline.py.
constexpr const char* k_students = R"(
rollout_batch_size: 32
prompt_length: 2048
response_length: 4096
num_return_sequences_in_group: 1
pretrain: Qwen/Qwen3-8B
num_gpus_per_node: 8
student_train:
  model_args: {model_name_or_path: "${pretrain}", dtype: bf16}
  training_args: {learning_rate: 1.0e-6, per_device_train_batch_size: 1,
                  gradient_accumulation_steps: 8}
  data_args: {file_name: [data/math.jsonl], domain_interleave_probs: {math_rule: 1.0}}
  strategy_args: {strategy_name: megatron_train}
  device_mapping: list(range(0,4))
student_infer:
  model_args: {model_name_or_path: "${pretrain}", dtype: bf16}
  generating_args: {max_new_tokens: "${response_length}", temperature: 0.99}
  strategy_args: {strategy_name: vllm}
  device_mapping: list(range(4,6))
teacher:
  model_args: {model_name_or_path: Qwen/Qwen3-32B, dtype: bf16}
  strategy_args: {strategy_name: megatron_infer}
  device_mapping: list(range(6,7))
rewards:
  math_rule: {worker_cls: roll.pipeline.rlvr.rewards.math_rule_reward_worker.MathRuleRewardWorker,
              tag_included: [math]}
)";

Expected<RunConfig> load(const std::string& more, const std::string& text = k_students) {
  return load_text(text + more, "opd.yaml");
}

RunConfig loaded(const std::string& more) {
  auto config = load(more);
  EXPECT_TRUE(config) << config.error().detail;
  return config ? *config : RunConfig{};
}

TEST(Distillation, RollsStudentsAreTheRolesOfAPureRun) {
  const RunConfig c = loaded("");
  EXPECT_EQ(c.pipeline, Pipeline::rlvr);
  EXPECT_TRUE(c.opd.is_pure);
  EXPECT_EQ(c.adv_estimator, AdvEstimator::reinforce);
  EXPECT_EQ(c.actor_train.device_mapping.size(), 4U);
  EXPECT_EQ(c.actor_infer.device_mapping.size(), 2U);
  EXPECT_EQ(c.derived.optimizer_batch, 32);
  EXPECT_EQ(teacher_folder(c), "Qwen/Qwen3-32B");
  EXPECT_FALSE(c.derived.is_reference_needed) << "init_kl_coef's default draws a chart alone";
  EXPECT_TRUE(c.origins.at("actor_train.training_args.learning_rate").starts_with("opd.yaml:"));
  auto again = load_text(c.resolved_yaml, "resolved.yaml");
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_TRUE(test::same_settings(c, *again)) << c.resolved_yaml;
}

TEST(Distillation, WhatOnlyRewardsReadIsToldInAPureRun) {
  const RunConfig c =
      loaded("adv_estimator: grpo\nuse_kl_loss: true\nkl_loss_coef: 0.1\nopd_kl_coef: 2\n");
  for (const char* key : {"adv_estimator", "use_kl_loss", "opd_kl_coef"})
    EXPECT_FALSE(warning_of(c, key).empty()) << key;
  EXPECT_FALSE(c.use_kl_loss);
  EXPECT_EQ(c.opd.coef, 1);
}

TEST(Distillation, AMixedRunKeepsItsEstimatorAndItsReference) {
  const RunConfig c = loaded(
      "use_opd: true\nopd_kl_coef: 0.5\nopd_token_kld_clip: 3\nadv_estimator: grpo\n"
      "use_kl_loss: true\nkl_loss_coef: 0.1\nreference: {device_mapping: [7]}\n");
  EXPECT_TRUE(c.opd.is_mixed);
  EXPECT_FALSE(c.opd.is_pure);
  EXPECT_EQ(c.opd.coef, 0.5);
  EXPECT_EQ(c.opd.clip, 3.0);
  EXPECT_EQ(c.adv_estimator, AdvEstimator::grpo);
  EXPECT_TRUE(c.derived.is_reference_needed);
}

TEST(Distillation, WhatIsMissingOrContraryIsAnError) {
  const auto refused = [](const std::string& more, const std::string& why) {
    const auto found = load(more);
    ASSERT_FALSE(found) << more;
    EXPECT_NE(found.error().detail.find(why), std::string::npos) << found.error().detail;
  };
  refused("use_opd: true\nis_pure_opd: true\n", "use_opd: not together with is_pure_opd");
  refused("actor_train: {device_mapping: [0]}\n", "student_train: not together with actor_train");
  const std::string text = k_students;
  const size_t teacher = text.find("teacher:"), rewards = text.find("rewards:");
  const auto without = load("", text.substr(0, teacher) + text.substr(rewards));
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().detail.find("needs a role `teacher` with a device_mapping"),
            std::string::npos)
      << without.error().detail;
}

TEST(Distillation, ATeacherThatNobodyAsksForIsNoted) {
  std::string text = k_students;
  for (const auto& [from, to] :
       {std::pair{"student_train", "actor_train"}, std::pair{"student_infer", "actor_infer"}})
    text.replace(text.find(from), std::string(from).size(), to);
  const auto c = load("adv_estimator: grpo\ninit_kl_coef: 0\n", text);
  ASSERT_TRUE(c) << c.error().detail;
  EXPECT_FALSE(has_teacher(*c));
  EXPECT_TRUE(std::ranges::any_of(c->notes, [](const Note& note) {
    return note.key == "teacher" && note.text.find("not built") != std::string::npos;
  }));
}

// -- verl's keys

RunConfig verl(const std::vector<std::string>& more) {
  std::vector<std::string> args = quickstart();
  args.push_back("distillation.enabled=True");
  args.push_back("distillation.teacher_model.model_path=/models/teacher");
  args.insert(args.end(), more.begin(), more.end());
  auto run = load_verl(args);
  EXPECT_TRUE(run) << run.error().detail;
  return run ? *run : RunConfig{};
}

const std::string k_loss = "distillation.distillation_loss.";

TEST(VerlDistillation, TheDefaultsAddATeacherToTheEstimatorsAdvantages) {
  const RunConfig run = verl({});
  EXPECT_TRUE(run.opd.is_mixed);
  EXPECT_EQ(run.opd.coef, 1);
  EXPECT_EQ(run.opd.kind, KlKind::k3);
  EXPECT_EQ(run.opd.clip, 10.0);
  EXPECT_EQ(teacher_folder(run), "/models/teacher");
  EXPECT_EQ(run.teacher.device_mapping.size(), 1U);
  auto again = load_text(run.resolved_yaml, "resolved.yaml");
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_TRUE(test::same_settings(run, *again)) << run.resolved_yaml;
}

TEST(VerlDistillation, WithoutTaskRewardsTheTeacherAloneCounts) {
  const RunConfig run = verl({k_loss + "use_task_rewards=False", k_loss + "loss_mode=k1",
                              k_loss + "clip_ratio_high=0.3",
                              "distillation.teacher_model.enable_resource_pool=True"});
  EXPECT_TRUE(run.opd.is_pure);
  EXPECT_EQ(run.opd.kind, KlKind::kl);
  EXPECT_EQ(run.adv_estimator, AdvEstimator::reinforce);
  EXPECT_FALSE(run.use_kl_loss);
  EXPECT_FALSE(run.critic.is_configured);
  EXPECT_EQ(run.pg_clip_high, 0.3);
  EXPECT_EQ(run.teacher.device_mapping, std::vector<uint32_t>{8}) << "behind the pool";
}

TEST(VerlDistillation, WithoutPolicyGradientItIsTheKlLossToTheTeacher) {
  const RunConfig run =
      verl({k_loss + "use_policy_gradient=False", k_loss + "distillation_loss_coef=0.3",
            "algorithm.use_kl_in_reward=False", "actor_rollout_ref.actor.use_kl_loss=False"});
  EXPECT_FALSE(run.opd.is_asked());
  EXPECT_TRUE(run.use_kl_loss);
  EXPECT_EQ(run.kl_loss_coef, 0.3);
  EXPECT_EQ(run.kl_loss_kind, KlKind::k3);
  EXPECT_EQ(own_reference(run), "/models/teacher");
}

TEST(VerlDistillation, WhatIsNotRunIsNamed) {
  const RunConfig topk = verl({k_loss + "loss_mode=forward_kl_topk"});
  EXPECT_NE(warning_of(topk, k_loss + "loss_mode").find(k_not_run), std::string::npos);
  const RunConfig supervised =
      verl({k_loss + "use_policy_gradient=False", k_loss + "use_task_rewards=False"});
  EXPECT_NE(warning_of(supervised, k_loss + "use_policy_gradient").find(k_not_run),
            std::string::npos);
  std::vector<std::string> args = quickstart();
  args.push_back("distillation.enabled=True");
  const auto nameless = load_verl(args);
  ASSERT_FALSE(nameless);
  EXPECT_NE(nameless.error().detail.find("distillation.teacher_model.model_path: missing"),
            std::string::npos)
      << nameless.error().detail;
}

}  // namespace
}  // namespace cohort::config
