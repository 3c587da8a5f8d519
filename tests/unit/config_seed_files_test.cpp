#include <gtest/gtest.h>

#include <chrono>

#include "runtime/config/tree/fragments.hpp"
#include "tests/support/config_text.hpp"
#include "tests/support/config_tree.hpp"

namespace cohort::config::config_seed_files_test {
namespace {

/// The file as its users have it: composed and resolved, without a change.
Node resolved_seed(const std::string& name) {
  std::string path = test::source_path("tests/data/seed_configs/" + name);
  auto root = read_yaml(path);
  EXPECT_TRUE(root) << root.error().detail;
  if (!root) return {};
  auto tree = compose(std::move(*root), std::filesystem::path(path).parent_path());
  EXPECT_TRUE(tree) << tree.error().detail;
  if (!tree) return {};
  Interpolated result = interpolate(*tree, process_sources());
  for (const Problem& problem : result.problems)
    ADD_FAILURE() << problem.mark.file_line_column() << ": " << problem.text;
  return std::move(result.root);
}

void expect_value(const Node& tree, const std::string& path, const std::string& value) {
  const Node* node = tree.at_path(path);
  ASSERT_NE(node, nullptr) << path;
  EXPECT_EQ(to_yaml(*node), value + "\n") << path;
}

TEST(SeedFiles, AgenticFrozenLake) {
  Node tree = resolved_seed("agentic_frozen_lake_npu.yaml");
  EXPECT_EQ(tree.find("defaults"), nullptr);
  expect_value(tree, "checkpoint_config.output_dir", "/data/models/agentic_frozen_lake_npu");
  expect_value(tree, "actor_train.strategy_args.strategy_config.zero_optimization.stage", "3");
  EXPECT_EQ(tree.at_path("actor_train.strategy_args.strategy_config.zero_optimization."
                         "offload_optimizer"),
            nullptr);
  // the file's max_tokens_per_step beats the fragment's 128 inside of every environment
  for (std::string tag : {"SimpleSokoban", "LargerSokoban", "SokobanDifferentGridVocab",
                          "FrozenLake", "FrozenLakeThink"}) {
    expect_value(tree, "custom_envs." + tag + ".max_tokens_per_step", "64");
    expect_value(tree, "custom_envs." + tag + ".max_steps", "10");
    expect_value(tree, "custom_envs." + tag + ".use_thread_lock", "true");
  }
  expect_value(tree, "custom_envs.SimpleSokoban.env_config.format_penalty", "-0.15");
  expect_value(tree, "custom_envs.LargerSokoban.env_config.dim_room", "[10, 10]");
  expect_value(tree, "custom_envs.LargerSokoban.env_config.search_depth", "10");
  expect_value(tree, "custom_envs.SokobanDifferentGridVocab.env_config.search_depth", "30");
  expect_value(tree, "custom_envs.SokobanDifferentGridVocab.env_config.grid_lookup.0", "W");
  expect_value(tree, "custom_envs.FrozenLake.env_config.format_penalty", "-0.01");
  expect_value(tree, "custom_envs.FrozenLake.env_config.is_slippery", "false");
  expect_value(tree, "custom_envs.FrozenLake.env_config.action_pattern",
               "\"<answer>(.*?)</answer>\"");
  expect_value(tree, "custom_envs.FrozenLakeThink.env_config.action_pattern",
               "\"<think>(.*?)</think>\\\\s*<answer>(.*?)</answer>\"");
  const std::string& text = tree.at_path("custom_envs.FrozenLake.agent_template")->scalar;
  for (const char* name : {"{turn_idx}", "{observation}", "{actions_left}", "{max_response_length}",
                           "<answer>", "</answer>"})
    EXPECT_NE(text.find(name), std::string::npos) << name;
  EXPECT_EQ(tree.at_path("custom_envs.FrozenLake.agent_template")->mark.source->substr(0, 9),
            "<shipped>");
}

TEST(SeedFiles, Rlvr) {
  Node tree = resolved_seed("qwen3_8b_rlvr_deepspeed.yaml");
  expect_value(tree, "actor_infer.generating_args.max_new_tokens", "8192");
  expect_value(tree, "actor_infer.generating_args.num_return_sequences", "8");
  expect_value(tree, "rewards.math_rule.model_args.model_name_or_path", "Qwen/Qwen3-8B-Base");
  expect_value(tree, "actor_train.strategy_args.strategy_config.bf16.enabled", "true");
  EXPECT_EQ(as_double(*tree.at_path("actor_train.training_args.learning_rate")), 1e-6);
}

TEST(SeedFiles, RlvrOnTwoNodes) {
  Node tree = resolved_seed("rlvr_npu_multinode.yaml");
  expect_value(tree, "checkpoint_config.output_dir", "/data/models/qwen2.5-7B-rlvr-npu-multinode");
  const std::string config = "actor_train.strategy_args.strategy_config.zero_optimization";
  expect_value(tree, config + ".stage", "3");
  expect_value(tree, config + ".offload_optimizer", "device: cpu\npin_memory: true");
  EXPECT_EQ(tree.at_path(config + ".offload_param"), nullptr);
  expect_value(tree, "rewards.code_sandbox.use_local", "true");
}

TEST(SeedFiles, ComposeInWellUnderASecond) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) resolved_seed("agentic_frozen_lake_npu.yaml");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

// The values of ROLL's own fragments.
TEST(ShippedFragments, HoldTheFacts) {
  struct Case {
    std::string name;
    std::string stage;
    bool is_optimizer_offloaded;
    bool is_param_offloaded;
  };
  const std::vector<Case> cases = {
      {"deepspeed_zero", "0", false, false},
      {"deepspeed_zero2", "2", false, false},
      {"deepspeed_zero3", "3", false, false},
      {"deepspeed_zero2_cpuoffload", "2", true, true},
      {"deepspeed_zero3_cpuoffload", "3", true, false},
  };
  for (const Case& x : cases) {
    auto it = std::find_if(shipped_fragments().begin(), shipped_fragments().end(),
                           [&](const Fragment& f) { return f.name == x.name; });
    ASSERT_NE(it, shipped_fragments().end()) << x.name;
    Node tree = test::parsed(it->text);
    ASSERT_EQ(tree.entries.size(), 1u);
    expect_value(tree, x.name + ".train_micro_batch_size_per_gpu", "auto");
    expect_value(tree, x.name + ".bf16.enabled", "true");
    expect_value(tree, x.name + ".fp16",
                 "enabled: false\nloss_scale: 0\ninitial_scale_power: 16\nloss_scale_window: 1000\n"
                 "hysteresis: 2\nmin_loss_scale: 1");
    const std::string zero = x.name + ".zero_optimization.";
    expect_value(tree, zero + "stage", x.stage);
    EXPECT_EQ(tree.at_path(zero + "offload_optimizer.device") != nullptr, x.is_optimizer_offloaded);
    EXPECT_EQ(tree.at_path(zero + "offload_param.device") != nullptr, x.is_param_offloaded);
    if (x.stage == "2") expect_value(tree, zero + "reduce_bucket_size", "500000000");
    if (x.stage == "3") expect_value(tree, zero + "reduce_bucket_size", "auto");
  }
}

TEST(ShippedFragments, AllParseAndAreSixOrMore) {
  EXPECT_GE(shipped_fragments().size(), 6u);
  for (const Fragment& fragment : shipped_fragments())
    EXPECT_TRUE(parse_yaml(fragment.text, "x")) << fragment.name;
}

}  // namespace
}  // namespace cohort::config::config_seed_files_test
