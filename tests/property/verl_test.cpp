#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/base/rng.hpp"
#include "tests/support/same_settings.hpp"
#include "tests/support/verl_command.hpp"

namespace cohort::config {
namespace {

using test::quickstart;

uint64_t test_seed() {
  const char* text = std::getenv("COHORT_SEED");
  uint64_t seed = text == nullptr ? 20261121 : std::strtoull(text, nullptr, 10);
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  return seed;
}

// The options of verl's quickstart and the keys they imply: each with values of its own.
const std::vector<std::pair<std::string, std::vector<std::string>>> k_options = {
    {"algorithm.adv_estimator", {"grpo", "rloo", "reinforce_plus_plus", "opo", "gpg", "remax"}},
    {"data.train_files", {"/x/gsm8k/train.parquet", "[/x/gsm8k/train.parquet]", "/none.parquet"}},
    {"data.val_files", {"/x/gsm8k/test.parquet"}},
    {"data.train_batch_size", {"128", "256", "64", "130"}},
    {"data.val_batch_size", {"null", "64"}},
    {"data.max_prompt_length", {"512", "1024"}},
    {"data.max_response_length", {"128", "2048"}},
    {"data.filter_overlong_prompts", {"True", "False"}},
    {"data.filter_overlong_prompts_workers", {"4"}},
    {"data.truncation", {"error", "left", "right", "middle"}},
    {"data.seed", {"null", "1"}},
    {"data.shuffle", {"True", "False"}},
    {"actor_rollout_ref.model.path", {"Qwen/Qwen2.5-0.5B-Instruct", "/m/Qwen3-8B"}},
    {"actor_rollout_ref.actor.optim.lr", {"5e-7", "1e-6"}},
    {"actor_rollout_ref.model.use_remove_padding", {"True", "False"}},
    {"actor_rollout_ref.actor.entropy_coeff", {"0", "0.001"}},
    {"actor_rollout_ref.actor.ppo_mini_batch_size", {"64", "128", "32", "48"}},
    {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", {"20", "10", "3"}},
    {"actor_rollout_ref.actor.use_dynamic_bsz", {"True", "False"}},
    {"actor_rollout_ref.actor.ppo_max_token_len_per_gpu", {"16384", "4096"}},
    {"actor_rollout_ref.actor.use_kl_loss", {"True", "False"}},
    {"actor_rollout_ref.actor.kl_loss_coef", {"0.001", "0"}},
    {"actor_rollout_ref.actor.kl_loss_type", {"low_var_kl", "k1", "k3+", "mse"}},
    {"actor_rollout_ref.actor.clip_ratio_low", {"0.2", "null"}},
    {"actor_rollout_ref.actor.loss_agg_mode", {"token-mean", "seq-mean-token-sum-norm"}},
    {"actor_rollout_ref.model.enable_gradient_checkpointing", {"True", "False"}},
    {"actor_rollout_ref.actor.fsdp_config.param_offload", {"True", "False"}},
    {"actor_rollout_ref.actor.fsdp_config.optimizer_offload", {"True", "False"}},
    {"actor_rollout_ref.ref.fsdp_config.param_offload", {"True", "False"}},
    {"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu", {"40", "7"}},
    {"actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu", {"40", "16"}},
    {"actor_rollout_ref.rollout.enable_chunked_prefill", {"True", "False"}},
    {"actor_rollout_ref.rollout.tensor_model_parallel_size", {"1", "2", "4", "3"}},
    {"actor_rollout_ref.rollout.name", {"vllm", "sglang", "trtllm", "hf"}},
    {"actor_rollout_ref.rollout.gpu_memory_utilization", {"0.6", "0.9"}},
    {"actor_rollout_ref.rollout.n", {"5", "8", "1"}},
    {"actor_rollout_ref.rollout.free_cache_engine", {"True"}},
    {"actor_rollout_ref.rollout.load_format", {"dummy", "safetensors"}},
    {"actor_rollout_ref.rollout.max_num_seqs", {"256", "64"}},
    {"actor_rollout_ref.rollout.temperature", {"1.0", "0.7"}},
    {"actor_rollout_ref.rollout.val_kwargs.temperature", {"0", "0.6"}},
    {"algorithm.kl_ctrl.kl_coef", {"0.001"}},
    {"algorithm.use_kl_in_reward", {"True", "False"}},
    {"trainer.critic_warmup", {"0", "2"}},
    {"trainer.logger", {"console", "[console,wandb]"}},
    {"trainer.project_name", {"p"}},
    {"trainer.experiment_name", {"e", "qwen2_7b"}},
    {"trainer.n_gpus_per_node", {"8", "16"}},
    {"trainer.nnodes", {"1", "2"}},
    {"trainer.save_freq", {"-1", "10"}},
    {"trainer.test_freq", {"5", "-1"}},
    {"trainer.total_epochs", {"1", "15"}},
    {"trainer.total_training_steps", {"null", "30"}},
    {"trainer.device", {"npu", "cuda", "cpu"}},
    {"trainer.val_before_train", {"True", "False"}},
    {"actor_rollout_ref.hybrid_engine", {"True"}},
    {"placement.mode", {"separate", "timeshare"}},
    {"platform", {"cpu", "npu"}},
};

void shuffle(std::vector<std::string>& words, Rng& rng) {
  for (size_t i = words.size(); i > 1; --i) std::swap(words[i - 1], words[rng.below(i)]);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::vector<std::pair<std::string, std::string>> sorted(const std::vector<Note>& notes) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Note& note : notes) out.emplace_back(note.key, note.text);
  std::sort(out.begin(), out.end());
  return out;
}

/// The settings in verl's own keys, without the notes behind them.
std::string settings_of(const std::string& resolved_yaml) {
  return resolved_yaml.substr(0, resolved_yaml.find("\n# no effect"));
}

void expect_same(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  auto x = load_verl(a);
  auto y = load_verl(b);
  ASSERT_EQ(x.has_value(), y.has_value());
  if (!x) {
    EXPECT_EQ(lines_of(x.error().detail), lines_of(y.error().detail));
    return;
  }
  EXPECT_TRUE(test::same_settings(*x, *y));
  EXPECT_EQ(settings_of(x->resolved_yaml), settings_of(y->resolved_yaml));
  EXPECT_EQ(sorted(x->warnings), sorted(y->warnings));
  EXPECT_EQ(sorted(x->notes), sorted(y->notes));
}

TEST(VerlProperty, OrderOfDistinctKeysDoesNotMatter) {
  Rng rng(test_seed());
  int accepted = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<std::string> words = {
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=20",
        "actor_rollout_ref.actor.ppo_mini_batch_size=64",
        "actor_rollout_ref.model.path=/m/Qwen3-8B",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8",
        "algorithm.adv_estimator=grpo",
        "data.train_batch_size=128",
        "actor_rollout_ref.rollout.n=5"};
    for (const auto& [key, values] : k_options) {
      bool is_there = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
        return word.starts_with(key + "=");
      });
      if (!is_there && rng.below(3) == 0)
        words.push_back(key + "=" + values[rng.below(values.size())]);
    }
    std::vector<std::string> mixed = words;
    std::sort(words.begin(), words.end());
    shuffle(mixed, rng);
    expect_same(words, mixed);
    accepted += load_verl(words) ? 1 : 0;
  }
  EXPECT_GT(accepted, 20) << "the generator should mostly make valid commands";
}

TEST(VerlProperty, OfARepeatedKeyTheLastWins) {
  Rng rng(test_seed() + 1);
  for (int round = 0; round < 60; ++round) {
    const auto& [key, values] = k_options[rng.below(k_options.size())];
    std::string last = key + "=" + values[rng.below(values.size())];
    std::string first = key + "=" + values[rng.below(values.size())];
    expect_same(quickstart({first, last}), quickstart({last}));
  }
}

TEST(VerlProperty, EveryOptionOfTheTableIsKnown) {
  for (const auto& [key, values] : k_options) {
    for (const std::string& value : values) {
      auto run = load_verl(quickstart({key + "=" + value}));
      std::string detail = run ? "" : run.error().detail;
      EXPECT_EQ(detail.find("unknown key"), std::string::npos) << detail;
      EXPECT_EQ(detail.find("expected"), std::string::npos) << detail;
    }
  }
}

TEST(VerlProperty, EveryKeyIsAcceptedWithItsDefault) {
  for (const KeyInfo& key : verl_keys()) {
    EXPECT_FALSE(key.doc.empty()) << key.path;
    EXPECT_FALSE(key.reader.empty()) << key.path;
    if (key.is_section) continue;
    auto run = load_verl(
        quickstart({"++" + key.path + "=" + (key.default_text.empty() ? "x" : key.default_text)}));
    std::string detail = run ? "" : run.error().detail;
    EXPECT_EQ(detail.find("unknown key"), std::string::npos) << key.path << ": " << detail;
    EXPECT_EQ(detail.find("expected"), std::string::npos) << key.path << ": " << detail;
  }
  EXPECT_GT(verl_keys().size(), 350u);
}

std::string random_text(Rng& rng, std::string_view alphabet, size_t size_max) {
  std::string text;
  for (size_t i = rng.below(size_max + 1); i > 0; --i) text += alphabet[rng.below(alphabet.size())];
  return text;
}

TEST(VerlProperty, RandomWordsAreRefusedOrLoaded) {
  Rng rng(test_seed() + 2);
  for (int round = 0; round < 400; ++round) {
    const KeyInfo& key = verl_keys()[rng.below(verl_keys().size())];
    std::string word = random_text(rng, "+~-", 2) + key.path + random_text(rng, "=", 1) +
                       random_text(rng, "a1.{}[]:,'\"$~= -", 8);
    auto run = load_verl(quickstart({word}));
    EXPECT_TRUE(run || !run.error().detail.empty()) << word;
  }
}

}  // namespace
}  // namespace cohort::config
