#pragma once
/// verl's supervised trainer as it is written: the keys of sft_trainer_engine and of the older
/// sft_trainer in one, with verl's defaults. verl_sft.cpp makes a pipeline of it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/config/bind/visitor.hpp"
#include "runtime/config/verl/verl_config.hpp"

namespace cohort::config {

struct VerlSftData {
  std::vector<std::string> train_files = {"~/data/gsm8k/train.parquet"};
  std::vector<std::string> val_files;
  int64_t train_max_samples = -1, val_max_samples = -1;  // [rows]; -1: all
  int64_t train_batch_size = 256;                        // [rows] of an optimizer step
  int64_t micro_batch_size_per_gpu = 4;                  // [rows]; 0: not given
  int64_t max_length = 1024;                             // [tokens]
  std::string truncation = "error";
  // the older trainer: a prompt and its answer
  std::string prompt_key = "question", response_key = "answer";
  std::vector<std::string> prompt_dict_keys, response_dict_keys;  // inside a column of objects
  bool multiturn_enable = false;
  std::string multiturn_messages_key = "messages", multiturn_tools_key = "tools";
  std::string thinking_key = "enable_thinking";
  // the newer one: a dialogue
  std::string messages_key = "messages", tools_key = "tools";
  bool ignore_input_ids_mismatch = false;
  std::string chat_template_kwargs = "{}";  // JSON object
  std::string chat_template;
  std::string custom_cls_path;
};

struct VerlSftModel {
  std::string path, partial_pretrain;  // the newer name, the older one
  std::string tokenizer_path;
  VerlLora lora;
};

struct VerlSftOptim {
  double lr = 1e-5;
  std::vector<double> betas = {0.9, 0.95};
  double weight_decay = 0.01;
  double clip_grad = 1.0;
  double warmup_ratio = 0.1;     // of all optimizer steps
  int64_t lr_warmup_steps = -1;  // negative: the ratio decides
  std::optional<double> min_lr_ratio;
  std::string lr_scheduler;       // the older name
  std::string lr_scheduler_type;  // the newer one
  std::string scheduler() const;
  std::string scheduler_key() const;
};

struct VerlSftEngine {
  std::string dtype = "bfloat16";  // of the products
  int64_t ulysses_size = 1;
  int64_t tensor_model_parallel_size = 1, pipeline_model_parallel_size = 1;
};

struct VerlSftTrainer {
  std::string project_name = "gsm8k-sft", experiment_name = "test", default_local_dir;
  int64_t nnodes = 1, n_gpus_per_node = 8;
  int64_t total_epochs = 4;
  std::optional<int64_t> total_training_steps;
  int64_t save_freq = -1, test_freq = -1;
  std::optional<int64_t> max_ckpt_to_keep;
  int64_t seed = 1;
  VerlResume resume_mode = VerlResume::automatic;
  std::string resume_from_path;
  std::string device;  // empty: not said
  std::vector<std::string> logger = {"console"};
  std::vector<std::string> save_contents;  // of trainer.checkpoint
};

struct VerlSft {
  VerlSftData data;
  VerlSftModel model;
  VerlSftOptim optim;
  VerlSftEngine engine;
  VerlSftTrainer trainer;
  int64_t ulysses_sequence_parallel_size = 1;
  std::vector<std::string> save_contents;  // of the section `checkpoint`
  bool is_engine = false;                  // the newer trainer: rows are dialogues

  const std::string& model_path() const {
    return model.path.empty() ? model.partial_pretrain : model.path;
  }
  /// Whether one of the two sections of checkpoints names it.
  bool saves(const std::string& what) const;
};

/// Walks every key of verl's supervised trainer. The schema of it.
void describe_verl_sft(Visitor& visitor, VerlSft& config);

}  // namespace cohort::config
