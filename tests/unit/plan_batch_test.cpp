#include <gtest/gtest.h>

#include "runtime/plan/estimate/batch.hpp"

namespace cohort::plan::plan_batch_test {
namespace {

std::string refusal(const BatchOptions& options) {
  auto plan = plan_batch(options);
  return plan ? "accepted" : plan.error().detail;
}

TEST(Batch, AStepOfSftIsOneOptimizerStep) {
  const auto plan = plan_batch({.rollout_batch_size = 256,
                                .per_device_train_batch_size = 4,
                                .gradient_accumulation_steps = 8,
                                .train_cards = 8,
                                .max_steps = 50,
                                .kind = BatchKind::sft});
  ASSERT_TRUE(plan) << plan.error().detail;
  EXPECT_EQ(plan->optimizer_batch, 256u);
  EXPECT_EQ(plan->per_rank, 32u);
  EXPECT_EQ(plan->accumulation, 8u);
  EXPECT_EQ(plan->steps, 50u);
  ASSERT_EQ(plan->numbers.size(), 4u);
  EXPECT_EQ(plan->numbers[0], (PlanNumber{"rows per optimizer step", 256,
                                          "4 per_device_train_batch_size * 8 "
                                          "gradient_accumulation_steps * 8 train cards"}));
  const auto by_epochs =
      plan_batch({.rollout_batch_size = 8, .max_steps = 0, .kind = BatchKind::sft});
  ASSERT_TRUE(by_epochs) << by_epochs.error().detail;
  EXPECT_EQ(by_epochs->steps, 0u);
  EXPECT_EQ(by_epochs->numbers.size(), 2u) << "the rows are not known before they are read";
}

TEST(Batch, SeedOneOfRoll) {  // 1024 trajectories (128*8), P*A*D = 2*64*4
  auto plan = plan_batch({.rollout_batch_size = 1024,
                          .group_size = 8,
                          .num_env_groups = 128,
                          .per_device_train_batch_size = 2,
                          .gradient_accumulation_steps = 64,
                          .train_cards = 4,
                          .max_steps = 200,
                          .val_batch_size = 1024,
                          .val_num_env_groups = 1024});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->optimizer_batch, 512u);
  EXPECT_EQ(plan->optimizer_steps_per_step, 2u);
  EXPECT_EQ(plan->optimizer_steps_total, 400u);
  EXPECT_EQ(plan->groups, 128u);
  EXPECT_EQ(plan->waves, 1u);
  EXPECT_EQ(plan->val_groups, 1024u);
  EXPECT_TRUE(plan->recompute_old_log_prob);
}

TEST(Batch, ACriticHasOptimizerStepsOfItsOwn) {
  const auto plan = plan_batch({.rollout_batch_size = 64,
                                .group_size = 8,
                                .per_device_train_batch_size = 64,
                                .kind = BatchKind::rlvr,
                                .critic_batch = 128,
                                .critic_epochs = 2});
  ASSERT_TRUE(plan) << plan.error().detail;
  EXPECT_EQ(plan->numbers.back(), (PlanNumber{"critic's optimizer steps per step", 8,
                                              "2 epochs * 512 / 128 trajectories of one"}));
}

TEST(Batch, OneOptimizerStepNeedsNoOldLogProbsUnlessThereIsKl) {
  BatchOptions options{
      .rollout_batch_size = 64, .group_size = 8, .gradient_accumulation_steps = 64};
  EXPECT_FALSE(plan_batch(options)->recompute_old_log_prob);
  options.has_kl = true;
  EXPECT_TRUE(plan_batch(options)->recompute_old_log_prob);
  options.has_kl = false;
  options.ppo_epochs = 2;
  EXPECT_TRUE(plan_batch(options)->recompute_old_log_prob);
}

TEST(Batch, IndivisibleBatchShowsArithmeticAndNearestValues) {  // BATCH-1
  EXPECT_EQ(refusal({.rollout_batch_size = 100,
                     .group_size = 4,
                     .per_device_train_batch_size = 2,
                     .gradient_accumulation_steps = 16}),
            "batch: rollout_batch_size 100 is not a multiple of P*A*D = 2*16*1 = 32 "
            "(per_device_train_batch_size * gradient_accumulation_steps * train cards): 100 = 3*32 "
            "+ 4; nearest rollout_batch_size that works: 96, 128; nearest "
            "gradient_accumulation_steps: 10, 25");
}

TEST(Batch, NearestValuesKeepTheGroupsWhole) {
  EXPECT_NE(refusal({.rollout_batch_size = 48, .group_size = 6, .gradient_accumulation_steps = 32})
                .find("nearest rollout_batch_size that works: 96;"),
            std::string::npos);
}

TEST(Batch, GroupSizeMustDivide) {
  EXPECT_EQ(
      refusal({.rollout_batch_size = 100, .group_size = 8}),
      "batch: rollout_batch_size 100 is not a multiple of group_size: 100 = 12*8 + 4; nearest "
      "rollout_batch_size that works: 96, 104; nearest group_size: 5, 10");
}

TEST(Batch, ValidationBatchMustFillItsGroups) {
  EXPECT_EQ(refusal({.rollout_batch_size = 8,
                     .val_batch_size = 100,
                     .val_group_size = 2,
                     .val_num_env_groups = 16}),
            "batch: val_batch_size 100 is not a multiple of validation num_env_groups*group_size = "
            "16*2 = 32: 100 = 3*32 + 4; nearest val_batch_size that works: 96, 128");
}

TEST(Batch, ZeroAndHugeNumbersAreNamed) {
  EXPECT_EQ(refusal({}), "batch: rollout_batch_size is 0");
  EXPECT_EQ(refusal({.rollout_batch_size = 8, .ppo_epochs = uint64_t{1} << 40}),
            "batch: ppo_epochs 1099511627776 is over the bound of 1048576");
  EXPECT_NE(refusal({.rollout_batch_size = 8,
                     .per_device_train_batch_size = 1 << 20,
                     .gradient_accumulation_steps = 1 << 20})
                .find("is over the bound"),
            std::string::npos);
}

uint64_t number(const BatchPlan& plan, std::string_view name) {
  for (const PlanNumber& x : plan.numbers)
    if (x.name == name) return x.value;
  ADD_FAILURE() << "no number " << name;
  return 0;
}

TEST(Batch, SeedTwoOfRoll) {  // 32 prompts * 8, P*A*D = 1*32*8
  auto plan = plan_batch({.rollout_batch_size = 32,
                          .group_size = 8,
                          .gradient_accumulation_steps = 32,
                          .train_cards = 8,
                          .has_kl = true,
                          .kind = BatchKind::rlvr,
                          .infer_cards = 4});
  ASSERT_TRUE(plan) << plan.error().detail;
  EXPECT_EQ(plan->trajectories, 256u);
  EXPECT_EQ(plan->optimizer_batch, 256u);
  EXPECT_EQ(plan->optimizer_steps_per_step, 1u);
  EXPECT_TRUE(plan->recompute_old_log_prob);  // the default KL
  EXPECT_EQ(plan->per_rank, 32u);
  EXPECT_EQ(plan->replicas, 4u);
}

TEST(Batch, SeedThreeOfRoll) {  // 64 prompts * 8, P*A*D = 1*32*8, 500 steps
  auto plan = plan_batch({.rollout_batch_size = 64,
                          .group_size = 8,
                          .gradient_accumulation_steps = 32,
                          .train_cards = 8,
                          .max_steps = 500,
                          .has_kl = true,
                          .kind = BatchKind::rlvr});
  ASSERT_TRUE(plan) << plan.error().detail;
  EXPECT_EQ(plan->trajectories, 512u);
  EXPECT_EQ(plan->optimizer_batch, 256u);
  EXPECT_EQ(plan->optimizer_steps_per_step, 2u);
  EXPECT_EQ(plan->optimizer_steps_total, 1000u);
  EXPECT_TRUE(plan->recompute_old_log_prob);
}

BatchOptions quickstart() {  // verl's quickstart: docs/config.md, Batch algebra
  return {.rollout_batch_size = 128,
          .group_size = 5,
          .train_cards = 8,
          .max_steps = 0,
          .has_kl = true,
          .kind = BatchKind::verl,
          .log_prob_batch_size = 40,
          .infer_cards = 8,
          .infer_tp = 2,
          .mini_batch_size = 64,
          .micro_batch_size = 20,
          .agent_workers = 8,
          .dataset_rows = 7473,
          .total_epochs = 1,
          .test_freq = 5};
}

TEST(Batch, QuickstartOfVerl) {
  auto plan = plan_batch(quickstart());
  ASSERT_TRUE(plan) << plan.error().detail;
  EXPECT_EQ(plan->trajectories, 640u);
  EXPECT_EQ(plan->per_rank, 80u);
  EXPECT_EQ(plan->mini_per_rank, 40u);
  EXPECT_EQ(plan->accumulation, 2u);
  EXPECT_EQ(plan->optimizer_steps_per_step, 2u);
  EXPECT_TRUE(plan->recompute_old_log_prob);
  EXPECT_EQ(plan->log_prob_passes, 2u);
  EXPECT_EQ(plan->replicas, 4u);
  EXPECT_EQ(plan->steps, 58u);
  EXPECT_EQ(plan->optimizer_steps_total, 116u);
  EXPECT_EQ(number(*plan, "rows dropped per epoch"), 49u);
  EXPECT_EQ(number(*plan, "trajectories per agent worker"), 80u);
  EXPECT_EQ(number(*plan, "validations"), 13u);  // 0, 5, 10, …, 55, 58
  for (const PlanNumber& x : plan->numbers) EXPECT_FALSE(x.arithmetic.empty()) << x.name;
}

TEST(Batch, VerlDivisibilityShowsArithmeticAndNearestValues) {
  BatchOptions x = quickstart();
  x.micro_batch_size = 16;
  EXPECT_EQ(refusal(x),
            "batch: mini-batch per rank 64*5/8 = 40 is not a multiple of "
            "actor.ppo_micro_batch_size_per_gpu 16: 40 = 2*16 + 8; nearest "
            "ppo_micro_batch_size_per_gpu that works: 10, 20");
  x = quickstart();
  x.mini_batch_size = 48;
  EXPECT_NE(refusal(x).find("128 = 2*48 + 32"), std::string::npos) << refusal(x);
  EXPECT_NE(refusal(x).find("nearest ppo_mini_batch_size: 32, 64"), std::string::npos);
  x = quickstart();
  x.mini_batch_size = 4;
  EXPECT_NE(refusal(x).find("4 * rollout.n 5 = 20 does not split over 8 data-parallel ranks: 20 = "
                            "2*8 + 4; nearest ppo_mini_batch_size that works: 8"),
            std::string::npos)
      << refusal(x);
  x = quickstart();
  x.infer_tp = 3;
  EXPECT_NE(refusal(x).find("infer cards 8 is not a multiple of"), std::string::npos);
  x = quickstart();
  x.mini_batch_size = 256;
  EXPECT_NE(refusal(x).find("is below actor.ppo_mini_batch_size 256"), std::string::npos);
}

TEST(Batch, RlvrNearestPromptsKeepTheMiniBatchWhole) {
  std::string text = refusal({.rollout_batch_size = 30,
                              .group_size = 8,
                              .gradient_accumulation_steps = 32,
                              .train_cards = 8,
                              .kind = BatchKind::rlvr});
  EXPECT_NE(text.find("rollout_batch_size 30 * 8 = 240 is not a multiple of P*A*D = 1*32*8 = 256"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("240 = 0*256 + 240; nearest rollout_batch_size that works: 32"),
            std::string::npos);
  EXPECT_NE(text.find("nearest gradient_accumulation_steps: 30"), std::string::npos);
}

}  // namespace
}  // namespace cohort::plan::plan_batch_test
