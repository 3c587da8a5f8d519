#include <gtest/gtest.h>

#include "runtime/plan/batch.hpp"

namespace cohort::plan {
namespace {

std::string refusal(const BatchOptions& options) {
  auto plan = plan_batch(options);
  return plan ? "accepted" : plan.error().detail;
}

TEST(Batch, SeedOneOfRoll) {  // spec/roll.md 2.6: 1024 trajectories (128*8), P*A*D = 2*64*4
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

TEST(Batch, MiniBatchesCoverTheStep) {  // BATCH-1
  auto plan =
      plan_batch({.rollout_batch_size = 96, .group_size = 8, .gradient_accumulation_steps = 32});
  ASSERT_TRUE(plan);
  uint64_t next = 0;
  for (uint64_t i = 0; i < 3; ++i) {
    auto range = mini_batch_range(*plan, i);
    EXPECT_EQ(range.begin, next);
    next = range.end;
  }
  EXPECT_EQ(next, 96u);
  EXPECT_DEATH(mini_batch_range(*plan, 3), "BATCH-1");
}

}  // namespace
}  // namespace cohort::plan
