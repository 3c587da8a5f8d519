#include "tools/actor-node/rescale_command.hpp"

#include <gtest/gtest.h>

#include "tests/support/config_text.hpp"

namespace cohort {
namespace {

std::string seed_one() {
  return test::source_path("tests/data/seed_configs/agentic_frozen_lake_npu.yaml");
}

std::string answer(const RescaleCommand& command) {
  auto text = rescale_text(command);
  return text ? *text : "error: " + text.error().detail;
}

TEST(RescaleCommand, NumbersOfTheGuide) {
  EXPECT_EQ(answer({.from = 8, .to = 2, .nodes = 2, .batch = 256, .learning_rate = 4e-4}),
            "batch_size      256 -> 64\n"
            "learning_rate   0.0004 -> 0.0001\n"
            "world_size      16 -> 4\n"
            "nproc_per_node  8 -> 2\n"
            "overrides: batch_size=64 learning_rate=0.0001 world_size=4 nproc_per_node=2\n");
}

TEST(RescaleCommand, WhatIsMissingOrDoesNotFit) {
  EXPECT_EQ(answer({.from = 8, .to = 2}),
            "error: rescale: give a CONFIG, or --batch and --lr above 0");
  EXPECT_EQ(answer({.from = 8, .to = 3, .batch = 4, .learning_rate = 1e-3}),
            "error: batch 4*3/8 = 1.5 is not whole; nearest batches that work: 8; card counts that "
            "work: 2, 4, 6, 8");
}

TEST(RescaleCommand, ConfigOfSeedOneFromFourToTwo) {
  // P*A*D = 2*64*4 = 512 becomes 256; 1024 trajectories become 512: two optimizer steps as before.
  RescaleCommand command{.config = {.path = seed_one()}, .from = 4, .to = 2};
  std::string text = answer(command);
  EXPECT_NE(text.find("optimizer batch P*A*D                    512 -> 256\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("overrides: 'actor_train.device_mapping=[0, 1]' rollout_batch_size=512 "
                      "actor_train.training_args.learning_rate=5e-07\n"),
            std::string::npos)
      << text;
  command.from = 8;
  EXPECT_EQ(answer(command),
            "error: rescale: actor_train has 4 cards, not --from 8 times --nnodes 1; cards per "
            "node that fit: 4");
}

TEST(RescaleCommand, OverridesThatItPrintsAreAccepted) {
  RescaleCommand command{
      .config = {.path = seed_one(),
                 .overrides = {"actor_train.device_mapping=[0, 1]", "rollout_batch_size=512",
                               "actor_train.training_args.learning_rate=5e-07"}},
      .from = 2,
      .to = 1};
  std::string text = answer(command);
  EXPECT_NE(text.find("learning_rate=2.5e-07"), std::string::npos) << text;
}

TEST(RescaleCommand, VerlKeysOfTheQuickstart) {  // 128 prompts, mini batch 64, 8 cards
  RescaleCommand command{
      .config = {.dialect = "verl",
                 .overrides = {"algorithm.adv_estimator=grpo", "data.train_batch_size=128",
                               "data.max_prompt_length=512", "data.max_response_length=128",
                               "actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct",
                               "actor_rollout_ref.actor.optim.lr=5e-7",
                               "actor_rollout_ref.actor.ppo_mini_batch_size=64",
                               "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=20",
                               "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=40",
                               "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=40",
                               "actor_rollout_ref.rollout.tensor_model_parallel_size=2",
                               "actor_rollout_ref.rollout.name=vllm",
                               "actor_rollout_ref.rollout.n=5", "trainer.n_gpus_per_node=8",
                               "trainer.nnodes=1"}},
      .from = 8,
      .to = 2};
  std::string text = answer(command);
  EXPECT_NE(text.find("overrides: trainer.n_gpus_per_node=2 data.train_batch_size=32 "
                      "actor_rollout_ref.actor.ppo_mini_batch_size=16 "
                      "actor_rollout_ref.actor.optim.lr=1.25e-07\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace cohort
