// Policies with routed experts and with latent attention as a user has them: a config.json in,
// GRPO, a checkpoint, an export, and a run that starts from it.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/byte_folder.hpp"
#include "tests/support/tiny_run.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::hashes;
using test::logprobs_of;
using test::Process;
using test::run_folder;
using test::TempFolder;

/// A tokenizer of bytes, and the shape of a model without weights.
fs::path write_shape(const TempFolder& folder, const std::string& family) {
  const fs::path path = folder.path() / "shape";
  tests::write_tokenizer_folder(path);
  json config = {{"model_type", family},
                 {"hidden_act", "silu"},
                 {"hidden_size", 32},
                 {"intermediate_size", 48},
                 {"num_hidden_layers", 3},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"vocab_size", 264},
                 {"initializer_range", 0.1},
                 {"rms_norm_eps", 1e-6},
                 {"rope_theta", 10000.0},
                 {"tie_word_embeddings", false},
                 {"max_position_embeddings", 2048},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 16},
                 {"norm_topk_prob", true},
                 {"eos_token_id", tests::k_im_end}};
  if (family == "qwen3_moe") {
    config.update({{"architectures", {"Qwen3MoeForCausalLM"}},
                   {"head_dim", 8},
                   {"num_experts", 4},
                   {"mlp_only_layers", {1}}});
  } else {
    config.update({{"architectures", {"DeepseekV3ForCausalLM"}},
                   {"num_key_value_heads", 4},
                   {"n_routed_experts", 4},
                   {"n_shared_experts", 1},
                   {"n_group", 2},
                   {"topk_group", 1},
                   {"first_k_dense_replace", 1},
                   {"routed_scaling_factor", 2.5},
                   {"q_lora_rank", 12},
                   {"kv_lora_rank", 8},
                   {"qk_rope_head_dim", 4},
                   {"qk_nope_head_dim", 8},
                   {"v_head_dim", 6}});
  }
  std::ofstream(path / "config.json") << config.dump();
  return path;
}

/// Two steps of two-digit addition.
std::vector<std::string> addition_run(const fs::path& out, const std::string& pretrain,
                                      const std::vector<std::string>& more) {
  std::vector<std::string> words = {
      "~model", "max_steps=2", "save_steps=1",
      "entropy_loss_coef=0.05"};  // a gradient where no answer is right
  words.insert(words.end(), more.begin(), more.end());
  return test::addition_run(out, pretrain, words);
}

std::map<uint64_t, std::string> hashes_of(const std::vector<std::string>& words,
                                          const TempFolder& temp, std::string& folder) {
  Process run(words, temp);
  EXPECT_EQ(run.wait(), 0) << run.err() << run.out();
  folder = run_folder(run);
  return hashes(folder);
}

class ExpertRun : public ::testing::TestWithParam<const char*> {};

TEST_P(ExpertRun, TrainsPublishesAndComesBackFromItsExport) {
  const TempFolder folder;
  const std::string shape = "random:" + (write_shape(folder, GetParam()) / "config.json").string();
  std::string first, second, third;
  const auto one = hashes_of(addition_run(folder.path() / "a", shape, {}), folder, first);
  ASSERT_EQ(one.size(), 3U);
  EXPECT_NE(one.at(1), one.at(2));
  // The same in two processes: what is sampled does not depend on who shares a batch.
  auto spread = addition_run(folder.path() / "b", shape, {});
  spread.insert(spread.begin() + 2, {"--processes", "2"});
  EXPECT_EQ(hashes_of(spread, folder, second), one);
  Process verified({test::binary("traj"), "verify", first}, folder);
  EXPECT_EQ(verified.wait(), 0) << verified.out() << verified.err();
  const fs::path out = folder.path() / "export";
  Process exported({test::binary("actor-node"), "export", first, out.string()}, folder);
  ASSERT_EQ(exported.wait(), 0) << exported.err();
  const std::string trained = logprobs_of(fs::path(first) / "checkpoints/step_2", folder);
  EXPECT_EQ(logprobs_of(out, folder), trained);
  EXPECT_NE(logprobs_of(fs::path(first) / "checkpoints/step_0", folder), trained);
  hashes_of(addition_run(folder.path() / "c", out.string(), {"max_steps=1"}), folder, third);
  EXPECT_EQ(logprobs_of(fs::path(third) / "checkpoints/step_0", folder), trained);
}

/// A rollout and a reference of their own cards, the rollout cut over two; the trainer by unit.
TEST_P(ExpertRun, ReachesRolloutsThatAreCutAndAReference) {
  const TempFolder folder;
  const std::string shape = "random:" + (write_shape(folder, GetParam()) / "config.json").string();
  std::string path;
  const auto found = hashes_of(
      addition_run(
          folder.path() / "a", shape,
          {"num_gpus_per_node=5", "actor_train.device_mapping=[0,1]",
           "actor_infer.device_mapping=[2,3]", "++reference.device_mapping=[4]",
           "init_kl_coef=0.01", "++actor_train.strategy_args.strategy_name=deepspeed_train",
           "++actor_train.strategy_args.strategy_config.zero_optimization.stage=3",
           "actor_train.training_args.gradient_accumulation_steps=2",
           "++actor_infer.strategy_args.strategy_config.tensor_parallel_size=2"}),
      folder, path);
  EXPECT_EQ(found.size(), 3U);
  Process verified({test::binary("traj"), "verify", path}, folder);
  EXPECT_EQ(verified.wait(), 0) << verified.out() << verified.err();
}

/// Experts over two cards, two replicas: rollouts get each expert from a card that holds it.
TEST_P(ExpertRun, ExpertsOverTrainCardsChangeNoHash) {  // TRAIN-3
  const TempFolder folder;
  const std::string shape = "random:" + (write_shape(folder, GetParam()) / "config.json").string();
  std::string first, second;
  const auto one = hashes_of(addition_run(folder.path() / "a", shape, {"micro_batch_tokens=256"}),
                             folder, first);
  ASSERT_NE(one.at(1), one.at(2));
  auto cut =
      addition_run(folder.path() / "b", shape,
                   {"micro_batch_tokens=256", "num_gpus_per_node=6",
                    "actor_train.device_mapping=[0,1,2,3]", "actor_infer.device_mapping=[4,5]",
                    "actor_train.training_args.gradient_accumulation_steps=1",
                    "++actor_train.strategy_args.strategy_name=megatron_train",
                    "++actor_train.strategy_args.strategy_config={expert_model_parallel_size: 2, "
                    "use_distributed_optimizer: true}"});
  cut.insert(cut.begin() + 2, {"--processes", "3"});
  EXPECT_EQ(hashes_of(cut, folder, second), one);
  Process verified({test::binary("traj"), "verify", second}, folder);
  EXPECT_EQ(verified.wait(), 0) << verified.out() << verified.err();
}

/// An adapter of every linear layer, those of routed experts too: two cards train it, whole or each
/// its experts; rollouts get A and B alone, cut or not; and it is merged into its model.
TEST(ExpertLora, TrainsAdaptersOfExperts) {
  const TempFolder folder;
  const std::string shape = "random:" + (write_shape(folder, "qwen3_moe") / "config.json").string();
  std::string base, first, second;
  hashes_of(addition_run(folder.path() / "a", shape, {"max_steps=1"}), folder, base);
  const std::string under = folder.path() / "under";
  Process exported({test::binary("actor-node"), "export", base, under}, folder);
  ASSERT_EQ(exported.wait(), 0) << exported.err();
  std::vector<std::string> lora = {"warm_start.steps=0", "++actor_train.model_args.lora_rank=4",
                                   "++actor_train.model_args.lora_target=all-linear",
                                   "actor_train.training_args.learning_rate=1.0e-2"};
  const auto one = hashes_of(addition_run(folder.path() / "b", under, lora), folder, first);
  ASSERT_EQ(one.size(), 3U);
  EXPECT_NE(one.at(1), one.at(2));
  std::vector<std::string> wide = lora;
  wide.insert(wide.end(), {"num_gpus_per_node=4", "actor_train.device_mapping=[0,1]",
                           "actor_infer.device_mapping=[2,3]",
                           "actor_train.training_args.gradient_accumulation_steps=2"});
  EXPECT_EQ(hashes_of(addition_run(folder.path() / "c", under, wide), folder, second), one);
  const fs::path out = folder.path() / "merged";
  Process merged({test::binary("actor-node"), "export", first, out.string(), "--merge"}, folder);
  ASSERT_EQ(merged.wait(), 0) << merged.err();
  EXPECT_NE(logprobs_of(out, folder), logprobs_of(under, folder));

  // The experts, and their adapters, over two cards: a rollout gets each from its card.
  std::vector<std::string> spread = wide;
  spread.insert(spread.end(),
                {"++actor_train.strategy_args.strategy_name=megatron_train",
                 "++actor_train.strategy_args.strategy_config={expert_model_parallel_size: 2, "
                 "use_distributed_optimizer: true}"});
  std::string over_cards;
  EXPECT_EQ(hashes_of(addition_run(folder.path() / "e", under, spread), folder, over_cards), one);
  // A rollout that two cards cut: other roundings, so other samples, and a run all the same.
  std::vector<std::string> cut = wide;
  cut.push_back("++actor_infer.strategy_args.strategy_config.tensor_parallel_size=2");
  std::string third;
  EXPECT_EQ(hashes_of(addition_run(folder.path() / "d", under, cut), folder, third).size(), 3U);
  Process verified({test::binary("traj"), "verify", third}, folder);
  EXPECT_EQ(verified.wait(), 0) << verified.out() << verified.err();
}

INSTANTIATE_TEST_SUITE_P(Families, ExpertRun, ::testing::Values("qwen3_moe", "deepseek_v3"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace cohort
