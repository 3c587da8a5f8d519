#include <gtest/gtest.h>

#include "runtime/config/roll/not_built.hpp"
#include "tests/support/verl_command.hpp"

namespace cohort::config {
namespace {

using test::quickstart;

struct Broken {
  std::string override_text;
  std::string message;  // without "override '…': "
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Each override breaks the quickstart in one way; the first line is whole.
void expect_refused(const std::vector<Broken>& cases) {
  for (const Broken& x : cases) {
    auto run = load_verl(quickstart({x.override_text}));
    ASSERT_FALSE(run) << x.override_text;
    EXPECT_EQ(run.error().code, Errc::config);
    EXPECT_EQ(first_line(run.error().detail), "override '" + x.override_text + "': " + x.message);
  }
}

TEST(VerlErrors, UnknownKeys) {
  expect_refused({
      {"actor_rollout_ref.actor.ppo_minibatch_size=64",
       "unknown key 'actor_rollout_ref.actor.ppo_minibatch_size'; did you mean "
       "'actor_rollout_ref.actor.ppo_mini_batch_size'?"},
      {"data.train_batchsize=64",
       "unknown key 'data.train_batchsize'; did you mean 'data.train_batch_size'?"},
      {"actor_rolout_ref.rollout.n=4",
       "unknown key 'actor_rolout_ref'; did you mean 'actor_rollout_ref'?"},
      {"+algorithm.gpu_memory_utilization=0.5",
       "unknown key 'algorithm.gpu_memory_utilization'; did you mean "
       "'actor_rollout_ref.rollout.gpu_memory_utilization'?"},
      {"zzzzzz=1", "unknown key 'zzzzzz'"},
      {"~trainer.loger", "unknown key 'trainer.loger'; did you mean 'trainer.logger'?"},
      {"placement.mod=separate", "unknown key 'placement.mod'; did you mean 'placement.mode'?"},
  });
}

TEST(VerlErrors, Types) {
  expect_refused({
      {"data.train_batch_size=many",
       "data.train_batch_size: expected an integer in 1..16777216, got 'many'"},
      {"data.truncation=eror",
       "data.truncation: expected one of error, left, right, middle, got 'eror'; did you mean "
       "'error'?"},
      {"actor_rollout_ref.rollout.gpu_memory_utilization=60",
       "actor_rollout_ref.rollout.gpu_memory_utilization: expected a number above 0 and of at most "
       "1, got '60'"},
      {"actor_rollout_ref.actor.clip_ratio_c=1",
       "actor_rollout_ref.actor.clip_ratio_c: expected a number above 1, got '1'"},
      {"actor_rollout_ref.actor.use_kl_loss=2",
       "actor_rollout_ref.actor.use_kl_loss: expected true or false, got '2'"},
      {"actor_rollout_ref.actor.kl_loss_type=low_var",
       "actor_rollout_ref.actor.kl_loss_type: expected one of kl, k1, k1+, abs, abs+, mse, k2, "
       "mse+, "
       "k2+, low_var_kl, k3, low_var_kl+, k3+, full, got 'low_var'"},
      {"actor_rollout_ref.actor.optim=3",
       "actor_rollout_ref.actor.optim: expected a section of keys, got '3'"},
      {"actor_rollout_ref.rollout.mode=both",
       "actor_rollout_ref.rollout.mode: expected one of async, sync, got 'both'"},
      {"actor_rollout_ref.actor.optim.betas=[0.9]",
       "actor_rollout_ref.actor.optim.betas: 1 numbers; AdamW has 2"},
  });
}

TEST(VerlErrors, MegatronsExpertParallelismIsTheTrainers) {
  const std::string size = ".megatron.expert_model_parallel_size=";
  const std::string of_actor = "actor_rollout_ref.actor" + size;
  std::vector<std::string> words = {"actor_rollout_ref.actor.strategy=megatron", of_actor + "2"};
  // The reference has the actor's size unless it is given one, and all experts in a run.
  const RunConfig whole = load_verl(quickstart(words)).value();
  EXPECT_TRUE(not_built(whole).empty());
  EXPECT_EQ(whole.reference.strategy_args.expert_parallel_size, 2);
  const auto note = std::ranges::find(whole.notes, "actor_rollout_ref.ref", &Note::key);
  ASSERT_NE(note, whole.notes.end());
  EXPECT_EQ(note->text,
            "EP 2: in a run each of its 8 cards has the whole model, and reads a share of the "
            "trajectories");
  words.push_back("actor_rollout_ref.ref" + size + "1");
  const RunConfig run = load_verl(quickstart(words)).value();
  EXPECT_TRUE(not_built(run).empty());
  EXPECT_EQ(run.actor_train.strategy_args.expert_parallel_size, 2);
  EXPECT_EQ(run.reference.strategy_args.expert_parallel_size, 1);
  EXPECT_EQ(run.actor_train.strategy_args.strategy, Strategy::megatron_train);
  words[1] = of_actor + "3";
  const auto odd = load_verl(quickstart(words));
  ASSERT_FALSE(odd);
  EXPECT_NE(odd.error().detail.find("8 cards = nnodes 1 x n_gpus_per_node 8 are not a multiple of "
                                    "3 = expert 3 x expert tensor 1 x pipeline 1"),
            std::string::npos)
      << odd.error().detail;
}

TEST(VerlErrors, DivisibilityShowsTheArithmetic) {
  expect_refused({
      {"actor_rollout_ref.rollout.tensor_model_parallel_size=3",
       "actor_rollout_ref.rollout.tensor_model_parallel_size: 8 cards = nnodes 1 x n_gpus_per_node "
       "8 are not a multiple of 3 = tensor 3 x data 1 x pipeline 1; nearest that work: 2, 4"},
      {"data.train_batch_size=130",
       "data.train_batch_size: 130 prompts x n 5 = 650 trajectories are not a multiple of 8 cards; "
       "nearest that work: 128, 136"},
      {"actor_rollout_ref.actor.ppo_mini_batch_size=256",
       "actor_rollout_ref.actor.ppo_mini_batch_size: 256 prompts are more than "
       "data.train_batch_size 128"},
      {"actor_rollout_ref.actor.ppo_mini_batch_size=1",
       "actor_rollout_ref.actor.ppo_mini_batch_size: 1 prompts x n 5 = 5 trajectories are fewer "
       "than 8 data-parallel ranks; the smallest that works: 2"},
      {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16",
       "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu: 16 does not divide 40, the "
       "mini-batch "
       "of a rank = ppo_mini_batch_size 64 x n 5 / 8 ranks; nearest that work: 10, 20"},
      {"actor_rollout_ref.actor.ulysses_sequence_parallel_size=3",
       "actor_rollout_ref.actor.ulysses_sequence_parallel_size: 8 cards = nnodes 1 x "
       "n_gpus_per_node 8 are not a multiple of 3; nearest that work: 2, 4"},
      {"actor_rollout_ref.actor.fsdp_config.fsdp_size=3",
       "actor_rollout_ref.actor.fsdp_config.fsdp_size: 8 cards = nnodes 1 x n_gpus_per_node 8 are "
       "not a multiple of 3; nearest that work: 2, 4"},
      {"actor_rollout_ref.rollout.expert_parallel_size=4",
       "actor_rollout_ref.rollout.expert_parallel_size: 4 is neither 1 nor 2 = tensor 2 x data 1"},
      {"data.train_batch_size=8000",
       "data.train_batch_size: 8000 prompts are more than the 7473 rows of data.train_files: the "
       "last batch is dropped, so there is none"},
  });
}

TEST(VerlErrors, RulesAcrossKeys) {
  expect_refused({
      {"actor_rollout_ref.actor.ppo_micro_batch_size=160",
       "actor_rollout_ref.actor.ppo_micro_batch_size: given beside ppo_micro_batch_size_per_gpu "
       "20: verl refuses both; remove this one, it is deprecated"},
      {"actor_rollout_ref.rollout.log_prob_micro_batch_size=80",
       "actor_rollout_ref.rollout.log_prob_micro_batch_size: given beside "
       "log_prob_micro_batch_size_per_gpu 40: verl refuses both; remove this one, it is "
       "deprecated"},
      {"actor_rollout_ref.rollout.max_num_batched_tokens=256",
       "actor_rollout_ref.rollout.max_num_batched_tokens: 256 is less than max_model_len 640, and "
       "enable_chunked_prefill is false: a longest prompt would never be scheduled; use at least "
       "640"},
      {"actor_rollout_ref.hybrid_engine=False",
       "actor_rollout_ref.hybrid_engine: false needs a pool for the rollout: give rollout.nnodes "
       "and rollout.n_gpus_per_node"},
      {"actor_rollout_ref.actor.kl_loss_type=full",
       "actor_rollout_ref.actor.kl_loss_type: full: verl has not implemented it; use kl, abs, mse "
       "or low_var_kl"},
      {"actor_rollout_ref.rollout.pipeline_model_parallel_size=2",
       "actor_rollout_ref.rollout.pipeline_model_parallel_size: 2: verl's engines have no pipeline "
       "stages; use 1 and a larger tensor_model_parallel_size"},
  });
}

TEST(VerlErrors, MissingKeysNameTheCommandLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"~actor_rollout_ref.model.path"},
       "actor_rollout_ref.model.path: missing: give a checkpoint folder or a Hugging Face name"},
      {{"~actor_rollout_ref.rollout.name"},
       "actor_rollout_ref.rollout.name: missing: verl has no default; say vllm or sglang"},
      {{"~actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"},
       "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu: missing: verl has no default; give "
       "it, or use_dynamic_bsz true"},
      {{"~actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"},
       "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu: missing: verl has no default; "
       "give it, or log_prob_use_dynamic_bsz true"},
      {{"algorithm.filter_groups={enable: true}"},
       "algorithm.filter_groups.metric: missing: filter_groups.enable needs acc, score, seq_reward "
       "or seq_final_reward"},
      {{"trainer.resume_mode=resume_path"},
       "trainer.resume_from_path: missing: resume_mode resume_path needs it"},
      {{"algorithm.adv_estimator=grpo_passk", "~actor_rollout_ref.rollout.n",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8"},
       "actor_rollout_ref.rollout.n: 1: grpo_passk compares the two best answers; use at least 2"},
  };
  for (const auto& [overrides, message] : cases) {
    auto run = load_verl(quickstart(overrides));
    ASSERT_FALSE(run) << overrides[0];
    EXPECT_EQ(first_line(run.error().detail), "command line: " + message);
  }
}

TEST(VerlErrors, WordsThatAreNoOverrides) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--config-dir=x"},
       "command line: '--config-dir=x' is no option of the verl dialect; known: --config-path, "
       "--config-name, then overrides a.b=c"},
      {{"--config-name"}, "command line: '--config-name' without a value"},
      {{"--config-name=mine"},
       "command line: --config-name mine needs its --config-path (known without: ppo_trainer, "
       "ppo_megatron_trainer, sft_trainer, sft_trainer_engine)"},
      {{"/nowhere/x.yaml"}, "/nowhere/x.yaml: no such file"},
  };
  for (const auto& [words, message] : cases) {
    auto run = load_verl(words);
    ASSERT_FALSE(run) << words[0];
    EXPECT_EQ(run.error().detail, message);
  }
  EXPECT_FALSE(load_verl({"data.seed"}));
}

TEST(VerlErrors, AreInTheOrderOfTheCommandLineUpToTen) {
  auto run = load_verl(quickstart({"trainer.nnodes=x", "data.seed=y", "algorithm.gamma=2"}));
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().detail,
            "override 'trainer.nnodes=x': trainer.nnodes: expected an integer in 1..65536, got "
            "'x'\n"
            "override 'data.seed=y': data.seed: expected an integer or ~, got 'y'\n"
            "override 'algorithm.gamma=2': algorithm.gamma: expected a number in 0..1, got '2'");
  std::vector<std::string> many;
  for (int i = 0; i < 14; ++i) many.push_back("unknown_" + std::to_string(i) + "=1");
  std::string detail = load_verl(quickstart(many)).error().detail;
  EXPECT_TRUE(detail.ends_with("\n… and 4 more")) << detail;
}

}  // namespace
}  // namespace cohort::config
