#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runtime/config/load.hpp"
#include "tests/support/config_text.hpp"

namespace cohort::config::config_errors_test {
namespace {

using test::k_small_config;
using test::load_small;

struct Broken {
  std::string override_text;
  std::string message;  // without "override '…': "
};

/// Each override breaks the small config in one way; the message is whole.
void expect_refused(const std::vector<Broken>& cases) {
  for (const Broken& x : cases) {
    auto result = load_small({x.override_text});
    ASSERT_FALSE(result) << x.override_text;
    EXPECT_EQ(result.error().code, Errc::config);
    EXPECT_EQ(result.error().detail, "override '" + x.override_text + "': " + x.message);
  }
}

TEST(ConfigErrors, UnknownKeys) {
  expect_refused({
      {"actor_train.traning_args.learning_rate=1",
       "unknown key 'actor_train.traning_args'; did you mean 'training_args'?"},
      {"max_step=3", "unknown key 'max_step'; did you mean 'max_steps'?"},
      {"learning_rate=1",
       "unknown key 'learning_rate'; did you mean 'actor_train.training_args.learning_rate'?"},
      {"zzzzzz=1", "unknown key 'zzzzzz'"},
      {"custom_envs.Lake.env_config.sise=4",
       "unknown key 'custom_envs.Lake.env_config.sise'; did you mean 'size'?"},
      {"rewards.env_return.wieght=4",
       "unknown key 'rewards.env_return.wieght'; did you mean 'weight'?"},
  });
}

TEST(ConfigErrors, Types) {
  expect_refused({
      {"max_steps=ten", "max_steps: expected an integer in -1..10000000, got 'ten'"},
      {"max_steps='3'", "max_steps: expected an integer in -1..10000000, got the string '3'"},
      {"max_steps=3.5", "max_steps: expected an integer in -1..10000000, got '3.5'"},
      {"seed=~", "seed: expected an integer of at least 0, got null"},
      {"seed=99999999999999999999",
       "seed: expected an integer of at least 0, got '99999999999999999999'"},
      {"gamma=1.5", "gamma: expected a number in 0..1, got '1.5'"},
      {"gamma=.nan", "gamma: expected a number in 0..1, got '.nan'"},
      {"pg_clip=0", "pg_clip: expected a number above 0 and of at most 1, got '0'"},
      {"max_grad_norm=-1", "max_grad_norm: expected a number of at least 0, got '-1'"},
      {"advantage_clip=[1]", "advantage_clip: expected a number above 0 or ~, got a list"},
      {"whiten_advantages=2", "whiten_advantages: expected true or false, got '2'"},
      {"exp_name=[a]", "exp_name: expected a text, got a list"},
      {"actor_train=3", "actor_train: expected a section of keys, got '3'"},
      {"rewards=[x]", "rewards: expected a section of keys, got a list"},
      {"train_env_manager.tags=Lake",
       "train_env_manager.tags: expected a list of texts, got 'Lake'"},
      {"train_env_manager.num_groups_partition=[a]",
       "train_env_manager.num_groups_partition: expected a list of integers of at least 0, got "
       "'a'"},
      {"cards.memory_bytes=lots",
       "cards.memory_bytes: expected a number of bytes above 0 (as 268435456, 256MiB or 1GiB), got "
       "'lots'"},
      {"loss_agg_mode=token_mean",
       "loss_agg_mode: expected one of token-mean, seq-mean-token-sum, seq-mean-token-mean, "
       "seq-mean-token-sum-norm, seq-mean-token-constant, token-sum, got 'token_mean'; did you "
       "mean "
       "'token-mean'?"},
      {"resume_from_checkpoint=[1]",
       "resume_from_checkpoint: expected true, false or the path of a checkpoint, got a list"},
      {"model.tokenizer=qwen",
       "model.tokenizer: no built-in vocabulary 'qwen' (there is: frozen_lake, "
       "arithmetic, word_problems, bytes; a folder with a tokenizer.json has a / in its path)"},
  });
}

TEST(ConfigErrors, Cards) {
  expect_refused({
      {"actor_train.device_mapping=0",
       "actor_train.device_mapping: expected a list of cards, got '0'; write [0]"},
      {"actor_train.device_mapping=[0, x]",
       "actor_train.device_mapping: expected a card id, got 'x'"},
      {"actor_train.device_mapping=[0, 0]",
       "actor_train.device_mapping: card id 0 is listed twice"},
      {"actor_infer.device_mapping=~",
       "actor_infer.device_mapping: missing: the role needs at least one card"},
      {"cards={memory_bytes: 64MiB, reserve_bytes: 64MiB}",
       "cards.reserve_bytes: 67108864 bytes leave nothing of memory_bytes 67108864"},
  });
}

TEST(ConfigErrors, Paths) {
  expect_refused({{"resume_from_checkpoint=/nowhere/step_3",
                   "resume_from_checkpoint: no folder '/nowhere/step_3'"}});
}

TEST(ConfigErrors, BatchAlgebraShowsTheArithmetic) {
  expect_refused({
      {"rollout_batch_size=18",
       "rollout_batch_size: 18 is not a multiple of train_env_manager.group_size 4; nearest that "
       "work: 16, 20"},
      {"rollout_batch_size=0",
       "rollout_batch_size: 0 is not a multiple of train_env_manager.group_size 4; the smallest "
       "that works: 4"},
      {"val_batch_size=12",
       "val_batch_size: 12 is not a multiple of 8 = val_env_manager.num_env_groups 8 x group_size "
       "1; nearest that "
       "work: 8, 16"},
      {"train_env_manager.num_groups_partition=[3]",
       "train_env_manager.num_groups_partition: 3 = 3, not num_env_groups 4"},
      {"train_env_manager.num_groups_partition=[2, 2]",
       "train_env_manager.num_groups_partition: 2 numbers for 1 tags"},
  });
}

TEST(ConfigErrors, RulesAcrossKeys) {
  expect_refused({
      {"model.num_key_value_heads=3",
       "model.num_key_value_heads: 3 does not divide num_attention_heads 4"},
      {"model.hidden_size=30",
       "model.hidden_size: 30 is not a multiple of num_attention_heads 4; nearest that work: 28, "
       "32; or give "
       "head_dim"},
      {"model.head_dim=7",
       "model.head_dim: a head of 7 is odd; rotary positions need an even head_dim"},
      {"init_kl_coef=0.1",
       "init_kl_coef: init_kl_coef 0.1 needs a reference role with a device_mapping; set it to 0, "
       "or add "
       "`reference:`"},
      {"use_kl_loss=true",
       "use_kl_loss: use_kl_loss needs a reference role with a device_mapping; set it to false, or "
       "add `reference:`"},
      {"train_env_manager.tags=[Lakes]",
       "train_env_manager.tags: there is no custom_envs.Lakes; did you mean 'Lake'?"},
      {"custom_envs.Lake.agent_template=hello",
       "custom_envs.Lake.agent_template: has no {observation}: the policy would see nothing"},
      {"custom_envs.Lake.agent_template='{observation}{turn_id}'",
       "custom_envs.Lake.agent_template: unknown placeholder '{turn_id}'; did you mean "
       "'turn_idx'?"},
      {"transport={chunk_bytes: 4MiB, credit_bytes: 2MiB}",
       "transport.chunk_bytes: 4194304 is more than transport.credit_bytes 2097152: no chunk would "
       "ever fit"},
      {"warm_start={steps: 2, rounds: 3}",
       "warm_start.rounds: 3 rounds for 2 optimizer steps; at most one round a step"},
  });
}

TEST(ConfigErrors, MissingKeys) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"~actor_train", "actor_train: missing: every run needs this role, with a device_mapping"},
      {"~actor_infer", "actor_infer: missing: every run needs this role, with a device_mapping"},
      {"~sequence_length",
       "sequence_length: missing: give sequence_length, or response_length (it adds "
       "prompt_length)"},
      {"~model",
       "pretrain: missing: give a checkpoint folder, or a `model` section for a random start"},
      {"~train_env_manager.tags",
       "train_env_manager.tags: missing: name at least one entry of custom_envs"},
      {"~init_kl_coef",
       "init_kl_coef: init_kl_coef 0.2 (ROLL's default) needs a reference role with a "
       "device_mapping; set it to 0, or add `reference:`"},
  };
  for (const auto& [override_text, message] : cases) {
    auto result = load_small({override_text});
    ASSERT_FALSE(result) << override_text;
    EXPECT_NE(result.error().detail.find(message), std::string::npos) << result.error().detail;
  }
}

TEST(ConfigErrors, NameFileLineAndColumn) {
  std::string text = k_small_config;
  text.replace(text.find("  training_args"), 15, "  traning_args ");
  auto result = load_text(text, "configs/x.yaml");
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().detail.starts_with(
      "configs/x.yaml:12:3: unknown key 'actor_train.traning_args'; did you mean 'training_args'?"))
      << result.error().detail;
}

TEST(ConfigErrors, AllAreReportedInFileOrderUpToTen) {
  auto result = load_text(std::string(k_small_config) + "gamma: 2\nseed: x\nlambd: y\n", "x.yaml",
                          {"~model"});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().detail,
            "x.yaml:1:1: pretrain: missing: give a checkpoint folder, or a `model` section for a "
            "random start\n"
            "x.yaml:27:8: gamma: expected a number in 0..1, got '2'\n"
            "x.yaml:28:7: seed: expected an integer of at least 0, got 'x'\n"
            "x.yaml:29:8: lambd: expected a number in 0..1, got 'y'");
  std::vector<std::string> many;
  for (int i = 0; i < 14; ++i) many.push_back("unknown_" + std::to_string(i) + "=1");
  std::string detail = load_small(many).error().detail;
  EXPECT_EQ(std::count(detail.begin(), detail.end(), '\n'), 10);
  EXPECT_TRUE(detail.ends_with("\n… and 4 more"));
}

TEST(ConfigErrors, FilesThatAreNone) {
  namespace fs = std::filesystem;
  fs::path folder =
      fs::temp_directory_path() / ("cohort_config_test_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  auto missing = load(folder / "none.yaml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::not_found);
  EXPECT_EQ(missing.error().detail, (folder / "none.yaml").string() + ": no such file");
  auto no_file = load(folder);
  ASSERT_FALSE(no_file);
  EXPECT_EQ(no_file.error().detail, folder.string() + ": not a file");
  std::ofstream(folder / "empty.yaml") << "# nothing\n";
  EXPECT_EQ(load(folder / "empty.yaml").error().detail,
            (folder / "empty.yaml").string() + ":1:1: the file is empty");
  std::ofstream(folder / "list.yaml") << "- a\n";
  EXPECT_EQ(load(folder / "list.yaml").error().detail,
            (folder / "list.yaml").string() + ":1:1: expected a map of keys, got a list");
  std::ofstream(folder / "frag.yaml") << "defaults:\n  - ../x/none@_here_\n";
  EXPECT_TRUE(load(folder / "frag.yaml")
                  .error()
                  .detail.starts_with((folder / "frag.yaml").string() +
                                      ":2:5: defaults entry '../x/none@_here_': no file " +
                                      (folder.parent_path() / "x/none.yaml").string()));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace cohort::config::config_errors_test
