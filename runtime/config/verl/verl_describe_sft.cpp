/// Keys of verl's supervised trainer.
#include <algorithm>
#include <array>

#include "runtime/config/verl/verl_sft_config.hpp"

namespace cohort::config {
namespace {

constexpr std::string_view k_engine = "the built-in engine has no such part";
constexpr std::string_view k_code = "no Python code of the model or of a data set is loaded";
constexpr double k_tokens_max = 1 << 24;

void describe_columns(Visitor& v, VerlSftData& d) {
  v.key({"prompt_key", "sft", "Column of the prompt."}, d.prompt_key);
  v.key({"response_key", "sft", "Column of the answer."}, d.response_key);
  v.text_or_texts(
      {"prompt_dict_keys", "sft", "Where in an object of that column; ~: it is a text."},
      d.prompt_dict_keys);
  v.text_or_texts({"response_dict_keys", "sft", "The same of the answer."}, d.response_dict_keys);
  if (v.enter({"multiturn", "sft", "Rows are dialogues (the older trainer)."}, true)) {
    v.key({"enable", "sft", "Whether they are."}, d.multiturn_enable);
    v.key({"messages_key", "sft", "Column of the messages."}, d.multiturn_messages_key);
    v.key({"tools_key", "sft", "Column of the tools."}, d.multiturn_tools_key);
    v.key({"enable_thinking_key", "sft", "Column of the thinking switch."}, d.thinking_key);
    v.leave();
  }
  v.key({"messages_key", "sft", "Column of the messages (the newer trainer)."}, d.messages_key);
  v.key({"tools_key", "sft", "Column of the tools."}, d.tools_key);
  v.key({"enable_thinking_key", "sft", "Column of the thinking switch."}, d.thinking_key);
  v.key({"ignore_input_ids_mismatch", "sft",
         "No error if the template writes earlier turns differently later (docs/sft.md)."},
        d.ignore_input_ids_mismatch);
  v.json_map({"apply_chat_template_kwargs", "sft", "More variables of the chat template."},
             d.chat_template_kwargs);
  v.nullable_text({"chat_template", "config", "A chat template; ~: the folder's."},
                  d.chat_template);
}

void describe_data(Visitor& v, VerlSftData& d) {
  static constexpr std::array<std::string_view, 3> k_cuts = {"error", "left", "right"};
  if (!v.enter({"data", "sft", "Rows to imitate."}, true)) return;
  v.text_or_texts({"train_files", "sft", "Parquet or jsonl files."}, d.train_files);
  v.text_or_texts({"val_files", "sft", "Held-out rows; ~: none."}, d.val_files);
  v.key({"train_max_samples", "config", "Rows to use; -1: all.", at_least(-1)},
        d.train_max_samples);
  v.key({"val_max_samples", "config", "Held-out rows to use; -1: all.", at_least(-1)},
        d.val_max_samples);
  v.key({"train_batch_size", "trainer", "Rows of an optimizer step.", between(1, 1 << 24)},
        d.train_batch_size);
  v.nullable_integer({"micro_batch_size_per_gpu", "trainer",
                      "Rows of a pass on a card. Passes are packed by micro_batch_tokens, and "
                      "change no result.",
                      between(0, 1 << 20)},
                     d.micro_batch_size_per_gpu);
  v.key({"max_length", "sft", "Longest row, its template included [tokens].",
         between(1, k_tokens_max)},
        d.max_length);
  v.one_of({"truncation", "sft", "What happens to a longer one."}, k_cuts, d.truncation);
  describe_columns(v, d);
  if (v.enter({"custom_cls", "config", "A data set class of the user's."}, true)) {
    v.nullable_text({"path", "config", "Its file; ~: none."}, d.custom_cls_path);
    v.inert("name", k_code);
    v.leave();
  }
  v.inert("micro_batch_size use_dynamic_bsz max_token_len_per_gpu pad_mode balance_dp_token",
          "passes are packed by micro_batch_tokens on every card");
  v.inert("use_shm num_workers sampler shuffle seed image_key video_key image_patch_size",
          "rows are read once, in an order by trainer.seed");
  v.leave();
}

void describe_lora(Visitor& v, VerlLora& x) {
  v.key({"lora_rank", "trainer", "Rank of LoRA adapters; 0: full fine-tuning.", between(0, 65536)},
        x.rank);
  v.key({"lora_alpha", "trainer", "LoRA's scale is alpha / rank.", at_least(0)}, x.alpha);
  v.text_or_texts({"target_modules", "trainer", "Modules with an adapter."}, x.targets);
  v.text_or_texts({"exclude_modules", "config", "Modules that get no adapter all the same."},
                  x.excluded);
  v.nullable_text({"lora_adapter_path", "trainer", "Folder with a PEFT adapter to start from."},
                  x.adapter_path);
}

void describe_model(Visitor& v, VerlSftModel& m) {
  if (!v.enter({"model", "trainer", "What is trained."}, true)) return;
  v.nullable_text({"path", "trainer", "A local Hugging Face folder (the newer trainer)."}, m.path);
  v.nullable_text({"partial_pretrain", "trainer", "The same (the older trainer)."},
                  m.partial_pretrain);
  v.nullable_text({"tokenizer_path", "config", "Folder of the tokenizer; ~: the model's."},
                  m.tokenizer_path);
  describe_lora(v, m.lora);
  v.inert("strategy", "gradients and moments are cut over the cards as FSDP cuts them");
  v.inert("enable_gradient_checkpointing enable_activation_offload",
          "the built-in engine keeps the activations of a micro-batch");
  v.rest("only the folder, its tokenizer and LoRA are read of this section", "");
  v.leave();
}

void describe_optim(Visitor& v, VerlSftOptim& o) {
  static constexpr std::array<std::string_view, 4> k_courses = {"", "cosine", "constant", "wsd"};
  if (!v.enter({"optim", "trainer", "AdamW and its learning rate."}, true)) return;
  v.key({"lr", "trainer", "Learning rate.", above(0)}, o.lr);
  v.key({"betas", "trainer", "Decay of the two moments.", {0, 1, false, true}}, o.betas);
  v.key({"weight_decay", "trainer", "Decoupled; not on norms and biases.", at_least(0)},
        o.weight_decay);
  v.key({"clip_grad", "trainer", "Largest norm of the gradient.", above(0)}, o.clip_grad);
  v.key({"lr_warmup_steps_ratio", "trainer", "Share of the steps that warm up.", between(0, 1)},
        o.warmup_ratio);
  v.key({"lr_warmup_steps", "trainer", "Steps that warm up; negative: the ratio decides."},
        o.lr_warmup_steps);
  v.key({"min_lr_ratio", "trainer", "Where cosine ends, as a share of lr; ~: 0.", between(0, 1)},
        o.min_lr_ratio);
  v.one_of({"lr_scheduler", "trainer", "Course of the rate (the older trainer)."}, k_courses,
           o.lr_scheduler);
  v.one_of({"lr_scheduler_type", "trainer", "The same (the newer trainer)."}, k_courses,
           o.lr_scheduler_type);
  v.rest("AdamW is the built-in optimizer", "");
  v.leave();
}

void describe_engine(Visitor& v, VerlSft& c) {
  static constexpr std::array<std::string_view, 6> k_types = {"bfloat16", "bf16",    "float32",
                                                              "fp32",     "float16", "fp16"};
  if (!v.enter({"engine", "trainer", "verl's engine (the newer trainer)."}, true)) return;
  v.one_of({"dtype", "compute", "Type of the weights in computation; masters are fp32."}, k_types,
           c.engine.dtype);
  v.key({"ulysses_sequence_parallel_size", "config", "Cards that share a sequence.",
         between(1, 65536)},
        c.engine.ulysses_size);
  v.key({"tensor_model_parallel_size", "config", "Megatron's TP.", between(1, 65536)},
        c.engine.tensor_model_parallel_size);
  v.key({"pipeline_model_parallel_size", "config", "Megatron's PP.", between(1, 65536)},
        c.engine.pipeline_model_parallel_size);
  v.rest(k_engine, "");
  v.leave();
}

void describe_checkpoint(Visitor& v, std::vector<std::string>& contents) {
  if (!v.enter({"checkpoint", "trainer", "What a checkpoint holds."}, true)) return;
  v.text_or_texts({"save_contents", "trainer",
                   "With hf_model each checkpoint also becomes a Hugging Face folder. Weights, "
                   "optimizer and cursors are always in it."},
                  contents);
  v.rest("a checkpoint always has weights, optimizer, schedule and data cursor", "");
  v.leave();
}

void describe_trainer(Visitor& v, VerlSftTrainer& t) {
  static constexpr std::array<std::string_view, 4> k_devices = {"", "cuda", "npu", "cpu"};
  if (!v.enter({"trainer", "driver", "The run."}, true)) return;
  v.key({"project_name", "run folder", "First piece of the run folder."}, t.project_name);
  v.key({"experiment_name", "run folder", "Second piece of it."}, t.experiment_name);
  v.nullable_text(
      {"default_local_dir", "run folder", "Where run folders go; ~: checkpoints/<project_name>."},
      t.default_local_dir);
  v.key({"nnodes", "placement", "Nodes.", between(1, 65536)}, t.nnodes);
  v.key({"n_gpus_per_node", "placement", "Cards of a node.", between(1, 4096)}, t.n_gpus_per_node);
  v.key({"total_epochs", "driver", "Passes over the rows.", between(1, 1'000'000)}, t.total_epochs);
  v.key({"total_training_steps", "driver", "Steps of the run; wins over total_epochs.",
         between(1, 10'000'000)},
        t.total_training_steps);
  v.key({"save_freq", "driver", "A checkpoint every so many steps; -1: after the last alone.",
         at_least(-1)},
        t.save_freq);
  v.key({"test_freq", "driver",
         "The held-out loss every so many steps; -1: before the first and after the last alone.",
         at_least(-1)},
        t.test_freq);
  v.key({"max_ckpt_to_keep", "driver", "Checkpoints kept; ~: all.", at_least(1)},
        t.max_ckpt_to_keep);
  v.key({"seed", "everything", "Fixes the order of rows and new adapters.", at_least(0)}, t.seed);
  v.key({"resume_mode", "driver", "auto: from the newest checkpoint if there is one."},
        t.resume_mode);
  v.nullable_text({"resume_from_path", "driver", "Checkpoint of resume_mode resume_path."},
                  t.resume_from_path);
  v.one_of({"device", "placement", "What a card is."}, k_devices, t.device);
  v.text_or_texts(
      {"logger", "config",
       "verl's trackers. Metrics always go to the console, metrics.jsonl and TensorBoard."},
      t.logger);
  describe_checkpoint(v, t.save_contents);
  v.inert("default_hdfs_dir use_legacy_worker_impl balance_batch profile_interval",
          "belongs to verl's workers and storage");
  v.leave();
}

}  // namespace

std::string VerlSftOptim::scheduler() const {
  if (!lr_scheduler_type.empty()) return lr_scheduler_type;
  return lr_scheduler.empty() ? "cosine" : lr_scheduler;
}

std::string VerlSftOptim::scheduler_key() const {
  return lr_scheduler_type.empty() ? "optim.lr_scheduler" : "optim.lr_scheduler_type";
}

bool VerlSft::saves(const std::string& what) const {
  return std::ranges::count(save_contents, what) + std::ranges::count(trainer.save_contents, what) >
         0;
}

void describe_verl_sft(Visitor& v, VerlSft& c) {
  describe_data(v, c.data);
  describe_model(v, c.model);
  describe_optim(v, c.optim);
  describe_engine(v, c);
  describe_trainer(v, c.trainer);
  describe_checkpoint(v, c.save_contents);
  v.key({"ulysses_sequence_parallel_size", "config", "Cards that share a sequence.",
         between(1, 65536)},
        c.ulysses_sequence_parallel_size);
  v.inert("use_remove_padding", "batches are always packed");
  v.inert("profiler", "every run leaves a trace (trace.json)");
}

}  // namespace cohort::config
