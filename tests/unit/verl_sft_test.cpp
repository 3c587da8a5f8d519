// verl's supervised trainers become pipeline sft: numbers, columns, what is refused, and where.

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "runtime/config/load.hpp"
#include "runtime/config/roll/not_built.hpp"
#include "runtime/config/verl/verl_load.hpp"

namespace cohort::config::verl_sft_test {
namespace {

constexpr LoadOptions k_any_path{.check_files = false};

RunConfig loaded(const std::vector<std::string>& words) {
  auto run = load_verl(words, k_any_path);
  EXPECT_TRUE(run) << (run ? "" : run.error().detail);
  return run ? *std::move(run) : RunConfig{};
}

std::string refused(std::vector<std::string> words) {
  words.push_back("model.path=/models/x");
  auto run = load_verl(words, k_any_path);
  EXPECT_FALSE(run) << words.front();
  return run ? "" : run.error().detail;
}

/// The command of verl's page on PEFT: fsdp_sft_trainer on GSM8K.
std::vector<std::string> peft(const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"data.train_files=/d/train.parquet",
                                    "data.val_files=/d/test.parquet",
                                    "data.prompt_key=extra_info",
                                    "data.response_key=extra_info",
                                    "optim.lr=1e-4",
                                    "data.prompt_dict_keys=['question']",
                                    "+data.response_dict_keys=['answer']",
                                    "data.micro_batch_size_per_gpu=4",
                                    "model.partial_pretrain=/models/Qwen2.5-0.5B-Instruct",
                                    "trainer.default_local_dir=/out",
                                    "trainer.project_name=gsm8k-sft",
                                    "trainer.experiment_name=qwen-peft",
                                    "trainer.logger=console",
                                    "trainer.total_epochs=1",
                                    "trainer.n_gpus_per_node=8",
                                    "model.lora_rank=32",
                                    "model.lora_alpha=16",
                                    "model.target_modules=all-linear",
                                    "use_remove_padding=true"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(VerlSft, TheOlderTrainersCommand) {
  const RunConfig run = loaded(peft());
  EXPECT_EQ(run.pipeline, Pipeline::sft);
  EXPECT_EQ(run.dialect, Dialect::roll) << "its config.yaml is in ROLL's keys";
  EXPECT_EQ(run.pretrain, "/models/Qwen2.5-0.5B-Instruct");
  EXPECT_EQ(run.sft.prompt_key, "extra_info.question");
  EXPECT_EQ(run.sft.response_key, "extra_info.answer");
  EXPECT_EQ(run.sft_train.data_args.messages, "");
  EXPECT_EQ(run.sft_train.data_args.file_name, std::vector<std::string>{"/d/train.parquet"});
  EXPECT_EQ(run.validation.data_args.file_name, std::vector<std::string>{"/d/test.parquet"});
  EXPECT_EQ(run.sft_train.data_args.truncation, PromptTruncation::error) << "verl's default";
  EXPECT_EQ(run.sequence_length, 1024);
  const TrainingArgs& t = run.sft_train.training_args;
  EXPECT_EQ(t.per_device_train_batch_size, 4);
  EXPECT_EQ(t.gradient_accumulation_steps, 8) << "256 rows over 8 cards, 4 at a time";
  EXPECT_EQ(run.derived.optimizer_batch, 256);
  EXPECT_DOUBLE_EQ(t.learning_rate, 1e-4);
  EXPECT_DOUBLE_EQ(t.weight_decay, 0.01);
  EXPECT_DOUBLE_EQ(t.adam_beta2, 0.95);
  EXPECT_DOUBLE_EQ(t.warmup_ratio, 0.1);
  EXPECT_EQ(t.lr_scheduler_type, SchedulerType::cosine);
  EXPECT_DOUBLE_EQ(t.num_train_epochs, 1);
  EXPECT_EQ(run.actor_train.model_args.lora_rank, 32);
  EXPECT_EQ(run.actor_train.model_args.lora_alpha, 16);
  EXPECT_EQ(run.actor_train.model_args.lora_target, std::vector<std::string>{"all-linear"});
  EXPECT_EQ(run.output_dir, "/out");
  EXPECT_EQ(run.exp_name, "qwen-peft");
  EXPECT_EQ(run.seed, 1);
  EXPECT_TRUE(run.resume_from_checkpoint.is_enabled) << "resume_mode auto";
  EXPECT_FALSE(run.save_hf);
  EXPECT_EQ(run.keep_checkpoints, 0) << "all of them";
  EXPECT_TRUE(not_built(run).empty()) << not_built(run).front().text;
}

TEST(VerlSft, TheNewerTrainersCommand) {
  const RunConfig run = loaded({"data.train_files=[/d/a.parquet,/d/b.parquet]",
                                "data.train_batch_size=64",
                                "data.max_length=16384",
                                "data.truncation=right",
                                "data.messages_key=dialogue",
                                "data.ignore_input_ids_mismatch=True",
                                "data.use_dynamic_bsz=True",
                                "data.max_token_len_per_gpu=65536",
                                "model.path=/models/Qwen3-0.6B",
                                "optim.lr=1e-5",
                                "optim.lr_scheduler_type=constant",
                                "optim.lr_warmup_steps=10",
                                "engine.dtype=float32",
                                "engine.ulysses_sequence_parallel_size=1",
                                "engine.wrap_policy.min_num_params=0",
                                "checkpoint.save_contents=[model,hf_model]",
                                "trainer.total_training_steps=50",
                                "trainer.save_freq=10",
                                "trainer.test_freq=5",
                                "trainer.max_ckpt_to_keep=2",
                                "trainer.resume_mode=disable",
                                "trainer.device=cpu",
                                "trainer.n_gpus_per_node=2",
                                "seed=7",
                                "micro_batch_tokens=512"});
  EXPECT_EQ(run.platform, Platform::cpu);
  EXPECT_EQ(run.sft_train.data_args.file_name.size(), 2U);
  EXPECT_EQ(run.sft_train.data_args.messages, "dialogue");
  EXPECT_EQ(run.sft.prompt_key, "");
  EXPECT_TRUE(run.sft.ignore_input_ids_mismatch);
  EXPECT_EQ(run.sft_train.data_args.truncation, PromptTruncation::right);
  EXPECT_EQ(run.sft_train.model_args.dtype, ModelDtype::fp32);
  EXPECT_EQ(run.sft_train.training_args.lr_scheduler_type, SchedulerType::constant_with_warmup);
  EXPECT_EQ(run.sft_train.training_args.warmup_steps, 10);
  EXPECT_EQ(run.max_steps, 50);
  EXPECT_EQ(run.save_steps, 10);
  EXPECT_EQ(run.eval_steps, -1) << "no held-out rows";
  EXPECT_EQ(run.keep_checkpoints, 2);
  EXPECT_TRUE(run.save_hf);
  EXPECT_FALSE(run.resume_from_checkpoint.is_enabled);
  EXPECT_EQ(run.seed, 7) << "our own key wins over trainer.seed";
  EXPECT_EQ(run.micro_batch_tokens, 512);
  EXPECT_FALSE(run.validation.is_configured);
  const auto noted = [&](const std::string& key) {
    return std::ranges::any_of(
        run.notes, [&](const Note& note) { return note.key.find(key) != std::string::npos; });
  };
  EXPECT_TRUE(noted("data.max_token_len_per_gpu"));
}

TEST(VerlSft, HeldOutRowsAreWrittenAsTheOthers) {
  const RunConfig run = loaded({"data.train_files=/d/a.parquet", "data.val_files=/d/b.parquet",
                                "model.path=/models/Qwen3-0.6B", "data.truncation=left",
                                "+data.apply_chat_template_kwargs={enable_thinking: false}"});
  EXPECT_NE(run.sft_train.data_args.chat_template_kwargs.find("enable_thinking"),
            std::string::npos);
  EXPECT_EQ(run.validation.data_args.chat_template_kwargs,
            run.sft_train.data_args.chat_template_kwargs);
  EXPECT_EQ(run.validation.data_args.messages, run.sft_train.data_args.messages);
  EXPECT_EQ(run.validation.data_args.truncation, PromptTruncation::left);
}

/// Without the lines that tell what has no effect.
std::string settings_of(const std::string& yaml) {
  std::istringstream in(yaml);
  std::string out;
  for (std::string line; std::getline(in, line);)
    if (!line.starts_with('#')) out += line + "\n";
  return out;
}

TEST(VerlSft, ReadsBackWhatItHasResolved) {  // CONF-2
  const RunConfig run = loaded(peft());
  const auto again = load_text(run.resolved_yaml, "config.yaml", {}, k_any_path);
  ASSERT_TRUE(again) << again.error().detail;
  EXPECT_EQ(settings_of(again->resolved_yaml), settings_of(run.resolved_yaml));
}

TEST(VerlSft, AConfigNameOrADialogueChoosesTheTrainer) {
  EXPECT_EQ(loaded({"--config-name", "sft_trainer", "model.partial_pretrain=/m"}).sft.prompt_key,
            "question");
  EXPECT_EQ(loaded({"--config-name=sft_trainer_engine", "model.partial_pretrain=/m"})
                .sft_train.data_args.messages,
            "messages");
  const RunConfig chat = loaded({"data.multiturn.enable=true", "data.multiturn.messages_key=turns",
                                 "model.partial_pretrain=/m"});
  EXPECT_EQ(chat.sft_train.data_args.messages, "turns");
}

TEST(VerlSft, NamesWhatItDoesNotTake) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"data.train_batch_size=250", "250 rows do not divide over 8 cards"},
      {"data.train_bach_size=8", "did you mean 'data.train_batch_size'?"},
      {"data.train_max_samples=100", "data.train_max_samples: is not built in"},
      {"data.custom_cls.path=/x.py", "data.custom_cls.path: is not built in"},
      {"data.chat_template=x", "data.chat_template: is not built in"},
      {"data.truncation=middle", "data.truncation"},
      {"data.max_length=0", "data.max_length"},
      {"model.exclude_modules=q_proj", "model.exclude_modules: is not built in"},
      {"optim.lr_scheduler=wsd", "optim.lr_scheduler: wsd is not built in"},
      {"trainer.resume_mode=resume_path", "trainer.resume_from_path: missing"},
      {"trainer.save_freq=after_each_epoch", "trainer.save_freq"},
      {"modle.path=/x", "modle"},
  };
  for (const auto& [word, text] : cases) {
    const std::string said = refused({word});
    EXPECT_NE(said.find(text), std::string::npos) << word << ": " << said;
    EXPECT_NE(said.find("override '" + word + "'"), std::string::npos) << said;
  }
  auto missing = load_verl({"--config-name=sft_trainer"}, k_any_path);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().detail.find("give a local folder"), std::string::npos);
}

// The batch is global: neither key changes it.
TEST(VerlSft, CutsOfTheModelAndOfSequencesAreMadeOtherwise) {
  const RunConfig run =
      loaded(peft({"ulysses_sequence_parallel_size=2", "engine.tensor_model_parallel_size=2"}));
  EXPECT_TRUE(not_built(run).empty());
  const auto says = [&run](std::string_view key, std::string_view text) {
    return std::ranges::any_of(run.notes, [&](const Note& note) {
      return note.key == key && note.text.find(text) != std::string::npos;
    });
  };
  EXPECT_TRUE(says("sft_train.strategy_args.strategy_config", "Ulysses 2: in a run each of"));
  EXPECT_TRUE(says("engine", "TP 2 x PP 1: in a run each card takes whole sequences"));
}

}  // namespace
}  // namespace cohort::config::verl_sft_test
