/// Keys of the policy's shape and of the roles actor_train, actor_infer, reference and rewards.
#include "runtime/config/roll/describe.hpp"
#include "runtime/model/families.hpp"

namespace cohort::config {
namespace {

void describe_model(Visitor& v, ModelSection& m) {
  if (!v.enter({"model", "trainer, rollout",
                "Shape of the policy when `pretrain` is ~ (Hugging Face's names)."},
               m.is_configured))
    return;
  m.is_configured = true;
  v.one_of(
      {"model_type", "compute, plan",
       "Family of decoders, as config.json names it; one that only plans is refused by a run."},
      model::family_names(), m.shape.family);
  v.key({"vocab_size", "compute",
         "Rows of the embedding; 0: the tokenizer's. More are rows that no text has, as "
         "published models pad.",
         between(0, 1 << 24)},
        m.shape.vocab_size);
  v.key({"hidden_size", "compute", "Width of the residual stream.", between(1, 1 << 20)},
        m.shape.hidden_size);
  v.key({"num_hidden_layers", "compute", "Decoder blocks.", between(1, 4096)},
        m.shape.num_hidden_layers);
  v.key({"num_attention_heads", "compute", "Query heads.", between(1, 4096)},
        m.shape.num_attention_heads);
  v.key({"num_key_value_heads", "compute", "Key and value heads; divides num_attention_heads.",
         between(1, 4096)},
        m.shape.num_key_value_heads);
  v.key({"head_dim", "compute", "Width of a head, even; 0: hidden_size / num_attention_heads.",
         between(0, 4096)},
        m.shape.head_dim);
  v.key({"intermediate_size", "compute", "Width of the SwiGLU block.", between(1, 1 << 22)},
        m.shape.intermediate_size);
  v.key({"rope_theta", "compute", "Base of the rotary positions.", above(1)}, m.shape.rope.theta);
  v.key({"rms_norm_eps", "compute", "Added to the mean square in RMSNorm.", above(0)},
        m.shape.rms_norm_eps);
  v.key({"initializer_range", "compute", "Deviation of the random initial weights.", above(0)},
        m.shape.initializer_range);
  v.key({"attention_bias", "compute",
         "Biases on q, k and v; left out: true for qwen2, false for llama."},
        m.shape.attention_bias);
  v.key({"tie_word_embeddings", "compute", "The output matrix is the embedding."},
        m.shape.tie_word_embeddings);
  v.tokenizer({"tokenizer", "environments, rollout",
               "Name of a built-in vocabulary, the words in id order, or the path of a folder with "
               "a tokenizer.json."},
              m.tokenizer, m.vocabulary);
  v.leave();
}

void describe_lora(Visitor& v, ModelArgs& m) {
  v.text_or_texts({"lora_target", "trainer, rollout",
                   "Modules that get LoRA adapters: a list, a text with commas, or an expression "
                   "that a module's full name matches; ~: full fine-tuning."},
                  m.lora_target);
  v.key({"lora_rank", "trainer, rollout", "Rank of the adapters; 0: without lora_target alone.",
         between(0, 1 << 16)},
        m.lora_rank);
  v.nullable_integer(
      {"lora_alpha", "trainer, rollout",
       "The adapters' scale is alpha / rank; 0 or ~: twice lora_rank.", between(0, 1 << 20)},
      m.lora_alpha);
  v.key({"lora_dropout", "plan", "Dropout in the adapters.", {0, 1, false, true}}, m.lora_dropout);
  v.inert("additional_target autocast_adapter_dtype", "adapters are f32, on linear layers");
}

}  // namespace

void describe_model_args(Visitor& v, ModelArgs& m, bool is_trained) {
  if (!v.enter({"model_args", "compute", "Numeric type and parts of the role's model."}, true))
    return;
  v.key({"dtype", "compute, plan", "Type of the weights in computation; master weights are fp32."},
        m.dtype);
  v.nullable_text(
      {"model_name_or_path", "plan",
       "Model of this role; ~: `pretrain` (critic: `reward_pretrain` first). Reference and critic "
       "may have another folder with the policy's tokenizer."},
      m.model_name_or_path);
  v.nullable_text({"adapter_name_or_path", "trainer",
                   "Folder with a PEFT adapter to start from; the lora keys then follow from it."},
                  m.adapter_name_or_path);
  v.key({"attn_implementation", "plan", "ROLL's attention kernel; the built-in engine has one."},
        m.attn_implementation);
  v.negated({"disable_gradient_checkpointing", "plan",
             "false: activations are computed again in the backward pass. Plans follow it; the "
             "built-in engine keeps the activations of a micro-batch."},
            m.is_gradient_checkpointing);
  v.key({"model_type", "plan", "~: a causal language model; others are value and reward heads."},
        m.model_type);
  v.nullable_integer({"ulysses_size", "plan",
                      "Cards that share a sequence by attention heads; 1: none (ROLL has it off on "
                      "npu).",
                      between(0, 4096)},
                     m.ulysses_size);
  describe_lora(v, m);
  v.text_or_texts({"freeze_module_prefix", "plan", "Modules that are not trained."},
                  m.freeze_module_prefix);
  v.text_or_texts(
      {"freeze_module_contains", "plan", "Modules that are not trained, by a part of their names."},
      m.freeze_module_contains);
  v.inert("flash_attn", "ROLL reads it nowhere: attn_implementation counts");
  const std::string_view balance = "moe_aux_loss_coef";
  if (is_trained)
    v.refused({balance, k_nobody,
               "a loss that balances the experts is not built in: use 0, or remove the key"});
  else
    v.inert(balance, "the role does not train");
  v.inert(
      "model_config_kwargs num_labels vision_dp device_map "
      "gradient_checkpointing_use_reentrant enable_gradient_checkpointing cpu_offload_config "
      "trust_remote_code extra_frozen_lora_adapters",
      "the built-in decoder has no such part");
  v.leave();
}

namespace {

void describe_scheduler(Visitor& v, SchedulerArgs& x) {
  if (!v.enter({"lr_scheduler_kwargs", "trainer", "What the schedule needs beside its name."},
               x != SchedulerArgs{} || v.is_listing()))
    return;
  v.key({"num_cycles", "trainer", "cosine_with_restarts: how often it falls.", above(0)},
        x.num_cycles);
  v.key({"min_lr", "trainer", "cosine_with_min_lr: the last rate.", at_least(0)}, x.min_lr);
  v.key({"min_lr_rate", "trainer", "cosine_with_min_lr: the same as a share of learning_rate.",
         between(0, 1)},
        x.min_lr_rate);
  v.key({"lr_end", "trainer", "polynomial: the last rate.", at_least(0)}, x.lr_end);
  v.key({"power", "trainer", "polynomial: its exponent.", above(0)}, x.power);
  v.key({"timescale", "trainer",
         "inverse_sqrt: steps after which the rate is 1/sqrt(2); 0: warmup_steps, or 10,000.",
         at_least(0)},
        x.timescale);
  v.key({"num_decay_steps", "trainer", "warmup_stable_decay: steps of the fall at the end.",
         at_least(0)},
        x.num_decay_steps);
  v.key({"min_lr_ratio", "trainer",
         "warmup_stable_decay: the last rate as a share of learning_rate.", between(0, 1)},
        x.min_lr_ratio);
  v.leave();
}

void describe_length(Visitor& v, TrainingArgs& t, bool reads_rows) {
  if (reads_rows) {
    v.key({"num_train_epochs", "driver",
           "Pipelines sft, dpo, rm: how often each row is read, where neither max_steps is given.",
           above(0)},
          t.num_train_epochs);
    v.key({"max_steps", "driver",
           "Likewise: optimizer steps; -1: num_train_epochs decides. max_steps at the top wins.",
           at_least(-1)},
          t.max_steps);
    return;
  }
  v.inert(
      "num_train_epochs",
      "max_steps at the top decides how long the run is; ROLL's rlvr and agentic do not read it");
  v.inert("max_steps", "max_steps at the top decides how long the run is");
}

void describe_training_args(Visitor& v, TrainingArgs& t, bool reads_rows) {
  if (!v.enter({"training_args", "trainer", "Optimizer and its batches."}, true)) return;
  v.key({"learning_rate", "trainer", "Peak learning rate of AdamW.", at_least(0)}, t.learning_rate);
  v.key({"weight_decay", "trainer", "AdamW's decay; not on biases and norms.", at_least(0)},
        t.weight_decay);
  v.key({"per_device_train_batch_size", "trainer",
         "Trajectories of a card per accumulation step (P).", between(1, 1 << 20)},
        t.per_device_train_batch_size);
  v.key({"gradient_accumulation_steps", "trainer",
         "Accumulation steps of an optimizer step (A). P x A x train cards trajectories make "
         "one optimizer step; how they are packed is micro_batch_tokens'.",
         between(1, 1 << 20)},
        t.gradient_accumulation_steps);
  v.key({"warmup_steps", "trainer", "Optimizer steps of linear warm-up; 0: warmup_ratio decides.",
         at_least(0)},
        t.warmup_steps);
  v.key({"warmup_ratio", "trainer", "Warm-up as a share of all optimizer steps.", between(0, 1)},
        t.warmup_ratio);
  v.key({"lr_scheduler_type", "trainer", "Course of the learning rate after the warm-up."},
        t.lr_scheduler_type);
  describe_scheduler(v, t.lr_scheduler_kwargs);
  v.key({"adam_beta1", "trainer", "Decay of the first moment.", {0, 1, false, true}}, t.adam_beta1);
  v.key({"adam_beta2", "trainer", "Decay of the second moment.", {0, 1, false, true}},
        t.adam_beta2);
  v.key({"adam_epsilon", "trainer", "Added to the root of the second moment.", above(0)},
        t.adam_epsilon);
  describe_length(v, t, reads_rows);
  v.inert("output_dir logging_steps save_steps max_grad_norm seed data_seed bf16 fp16 tf32",
          "the key at the top of the file, or model_args.dtype, decides");
  v.inert("dataloader_num_workers dataloader_drop_last dataloader_pin_memory",
          "trajectories arrive as streams: there is no data loader");
  v.inert(
      "num_cycles min_lr_ratio optim use_distributed_optimizer "
      "sequence_parallel overlap_grad_reduce",
      "the optimizer is AdamW with the schedules of lr_scheduler_type");
  v.leave();
}

}  // namespace

void describe_generating_args(Visitor& v, GeneratingArgs& g) {
  if (!v.enter({"generating_args", "rollout", "Sampling."}, true)) return;
  v.key({"max_new_tokens", "rollout",
         "Bound on one answer. agentic: with max_tokens_per_step; rlvr: rewritten to "
         "sequence_length - prompt_length.",
         between(1, 1 << 24)},
        g.max_new_tokens);
  v.key({"top_p", "rollout", "Nucleus sampling; 1: off.", {0, 1, true, false}}, g.top_p);
  v.key({"top_k", "rollout", "The k most likely tokens; 0 or -1: off.", at_least(-1)}, g.top_k);
  v.key({"temperature", "rollout",
         "Of training rollouts; 0: greedy. Log-probabilities are those of temperature 1.",
         at_least(0)},
        g.temperature);
  v.key({"num_beams", "rollout", "Beams of a beam search; 1: sampling.", between(1, 1024)},
        g.num_beams);
  v.key({"num_return_sequences", "config",
         "Answers to a prompt; rlvr: rewritten to num_return_sequences_in_group, agentic: 1.",
         between(1, 1 << 16)},
        g.num_return_sequences);
  v.key({"repetition_penalty", "rollout",
         "Above 1: tokens of the prompt and the answer become less likely; 1: off. The "
         "log-probabilities that train go without it.",
         above(0)},
        g.repetition_penalty);
  v.text_or_texts(
      {"stop_strings", "rollout", "Texts that end an answer behind the token that completes one."},
      g.stop_strings);
  v.inert("logprobs include_stop_str_in_output",
          "behaviour log-probabilities of every sampled token are always kept");
  v.inert("do_sample", "temperature decides: 0 is greedy");
  v.inert("max_length", "max_new_tokens decides");
  v.inert("height width num_inference_steps max_sequence_length guidance_scale extra_args",
          "of diffusion models");
  v.inert("length_penalty", "of beam search only");
  v.inert(
      "presence_penalty frequency_penalty min_p seed stop_token_ids skip_special_tokens "
      "spaces_between_special_tokens",
      "not built into the sampler");
  v.leave();
}

namespace {

void describe_data_inert(Visitor& v) {
  v.inert("dataset_dir",
          "ROLL drops it: file names are looked up in the working directory, so write the folder "
          "into file_name");
  v.inert("interleave_probs",
          "ROLL accepts it and reads it nowhere: domain_interleave_probs counts");
  v.inert("preprocessing_num_workers cache_path overwrite_cache max_samples",
          "rows are encoded as they are used");
  v.inert(
      "image_max_pixels image_min_pixels video_max_pixels video_min_pixels video_total_pixels "
      "video_fps video_max_frames video_resize_chunk_frames image_folder video_folder audio_folder "
      "custom_data_kwargs_func",
      "rows are text: images, videos and sounds are not read");
  v.inert("rollout_dataloader_num_workers rollout_dataloader_batch_size",
          "rows are encoded as they are used");
  v.inert(
      "dataset_name eval_dataset_name image video audio val_size streaming mix_strategy "
      "tokenized_path system query columns buffer_size cutoff_len train_on_prompt mask_history "
      "packing",
      "ROLL's rlvr and agentic pipelines do not read it");
}

}  // namespace

void describe_data_args(Visitor& v, DataArgs& d) {
  if (!v.enter({"data_args", "plan", "Where prompts come from and how they become chats."},
               d.is_configured))
    return;
  d.is_configured = true;
  v.nullable_text({"template", "preflight",
                   "Chat template: native and qwen2_5 are the tokenizer's, qwen3 sets "
                   "enable_thinking, chatml is written here, empty and base are none."},
                  d.template_name);
  v.json_map({"chat_template_kwargs", "preflight",
              "More variables of the chat template, e.g. {enable_thinking: false}."},
             d.chat_template_kwargs);
  std::optional<bool> is_thinking;  // kept in the variables
  v.key({"enable_thinking", "preflight", "The same variable of chat_template_kwargs."},
        is_thinking);
  if (is_thinking && d.chat_template_kwargs.find("\"enable_thinking\"") == std::string::npos)
    d.chat_template_kwargs =
        fmt::format("{{\"enable_thinking\":{}{}", *is_thinking,
                    d.chat_template_kwargs == "{}" ? "}" : "," + d.chat_template_kwargs.substr(1));
  v.nullable_text({"chat_template_date", "preflight",
                   "YYYY-MM-DD: the day that a template which writes the date takes for today."},
                  d.chat_template_date);
  v.nullable_text(
      {"system_prompt", "preflight", "System message in front of conversations that have none."},
      d.system_prompt);
  v.text_or_texts({"file_name", "plan",
                   "Files with prompts (.jsonl), or builtin:arithmetic, "
                   "builtin:word_problems, builtin:tool_arithmetic."},
                  d.file_name);
  v.inert("eval_file_name", "evaluation reads validation.data_args.file_name");
  v.number_map({"domain_interleave_probs", "plan",
                "Share of each domain (entry of rewards) in a step; the last gets what is left.",
                between(0, 1)},
               d.domain_interleave_probs);
  v.nullable_text({"messages", "plan", "Column with the chat; not together with prompt."},
                  d.messages);
  v.nullable_text({"prompt", "plan", "Column with the prompt's text."}, d.prompt);
  v.nullable_text({"response", "plan", "Column with the answer."}, d.response);
  v.nullable_text({"tag", "plan", "Column that says the domain."}, d.tag);
  v.nullable_text({"id", "plan", "Column with the row's name."}, d.id);
  v.key({"filter_overlong_prompts", "preflight",
         "Drop rows whose prompt has more than prompt_length tokens."},
        d.filter_overlong_prompts);
  v.key({"truncation", "preflight",
         "What becomes of a prompt above prompt_length: an error that names the row, or the "
         "left, right or middle part of its tokens goes."},
        d.truncation);
  v.key({"skip_bad_rows", "preflight",
         "Rows that cannot be read are counted and named, not an error."},
        d.skip_bad_rows);
  describe_data_inert(v);
  v.nullable_text({"dataset_type", "plan", "Format of the files; the ending decides."},
                  d.dataset_type);
  v.leave();
}

namespace {

void describe_worker_inert(Visitor& v) {
  v.inert(
      "worker_cls name backend_timeout checkpoint_config offload_nccl max_concurrency "
      "model_update_frequency profiler_config router_replay mtp_training_mode",
      "belongs to ROLL's Ray workers");
  v.inert(
      "tis_lower_bound tis_upper_bound cispo_epsilon_low cispo_epsilon_high "
      "cispo_use_unified_mask cispo_clip_range kimi15_tau",
      "ROLL itself takes the defaults of tis, cispo and kimi15 whatever the file says");
  v.inert(
      "use_remove_padding sequence_length_round_in_train sequence_length_round_in_infer "
      "use_dynamic_batching_in_train use_dynamic_batching_in_infer "
      "max_tokens_per_microbatch_in_train max_tokens_per_microbatch_in_infer use_sequence_packing "
      "sequence_packing_args",
      "batches are always packed; see micro_batch_tokens");
  v.inert("logits_in_fp32 use_logits_chunking logits_chunk_size",
          "log-probabilities are always taken in fp32, chunk by chunk");
  v.inert("apply_loss_scale", "losses are always divided by the counts of the optimizer batch");
}

}  // namespace

void describe_worker_keys(Visitor& v, WorkerConfig& w, RoleUse use) {
  v.cards({"device_mapping", "placement",
           "Cards of the role: a list, or sums of list(range(a,b,c)) and list([a,b])."},
          w.device_mapping);
  if (use.is_infer)
    v.inert("infer_batch_size",
            "of log-probability batches; a generating or scoring role computes none, and ROLL "
            "reads it nowhere");
  else
    v.key({"infer_batch_size", "compute, plan", "Trajectories of one log-probability batch.",
           between(1, 1 << 20)},
          w.infer_batch_size);
  v.nullable_integer(
      {"world_size", "plan", "Processes of a role without cards; with cards it follows from them.",
       between(0, 1 << 20)},
      w.world_size);
  v.inert("num_gpus_per_worker", "follows from strategy_config");
  v.key(
      {"system_envs", "doctor", "Environment variables of the role, over the file's system_envs."},
      w.system_envs);
  describe_model_args(v, w.model_args, use.is_train);
  if (w.strategy_args.strategy == Strategy::none && !v.is_listing() && !use.is_reward)
    w.strategy_args.strategy = use.is_train   ? Strategy::deepspeed_train
                               : use.is_infer ? Strategy::vllm
                                              : Strategy::hf_infer;
  describe_strategy(v, w.strategy_args);
  describe_data_args(v, w.data_args);
}

void describe_worker(Visitor& v, WorkerConfig& w, const Key& key, RoleUse use) {
  if (!v.enter(key, w.is_configured)) return;
  w.is_configured = true;
  describe_worker_keys(v, w, use);
  if (use.is_rollout) {
    v.key({"engine", "rollout",
           "What generates: built_in, or another row of the engine table (docs/extending.md)."},
          w.engine);
    v.key({"engine_settings", "rollout", "Settings of that engine, name: text."},
          w.engine_settings);
  }
  if (use.is_train)
    describe_training_args(v, w.training_args, use.reads_rows);
  else
    v.inert("training_args", "the role does not train");
  if (use.is_infer)
    describe_generating_args(v, w.generating_args);
  else
    v.inert("generating_args", "the role does not generate");
  constexpr std::string_view k_loss_keys = "pg_variant topr_positive_weight topr_negative_weight";
  if (use.is_train) {
    v.key({"pg_variant", "trainer", "Policy loss; ~ and ppo: the clipped ratio."}, w.pg_variant);
    v.key({"topr_positive_weight", "trainer", "topr: weight of answers with a score above 0."},
          w.topr_positive_weight);
    v.key({"topr_negative_weight", "trainer", "topr: weight of the others."},
          w.topr_negative_weight);
  } else {
    v.inert(k_loss_keys, "the role does not train");
  }
  describe_worker_inert(v);
  v.leave();
}

void describe_roles(Visitor& v, RunConfig& c) {
  describe_model(v, c.model);
  describe_worker(v, c.actor_train, {"actor_train", "trainer", "The role that trains."},
                  {.is_train = true, .reads_rows = true});
  describe_worker(v, c.actor_infer, {"actor_infer", "rollout", "The role that generates."},
                  {.is_infer = true, .is_rollout = true});
  describe_worker(v, c.reference,
                  {"reference", "reference",
                   "The frozen policy; built only when a KL, or the loss of pairs, needs it."},
                  {});
  describe_worker(v, c.critic, {"critic", "critic", "The value model of adv_estimator gae."},
                  {.is_train = true});
  describe_worker(v, c.reward_model,
                  {"reward_model", "plan", "A judge that several rewards share."},
                  {.is_infer = true});
  describe_worker(v, c.sft_train, {"sft_train", "trainer", "The role that trains in pipeline sft."},
                  {.is_train = true, .reads_rows = true});
  describe_worker(v, c.student, {"student", "trainer", "The role that trains in pipeline distill."},
                  {.is_train = true, .reads_rows = true});
  describe_worker(v, c.teacher,
                  {"teacher", "teacher",
                   "The role that is imitated: in pipeline distill, with is_pure_opd and use_opd."},
                  {});
  if (!v.is_writing()) {  // written under the names of the roles that they are
    describe_worker(v, c.actor_train,
                    {"student_train", "trainer", "ROLL's name of actor_train with is_pure_opd."},
                    {.is_train = true});
    describe_worker(v, c.actor_infer,
                    {"student_infer", "rollout", "ROLL's name of actor_infer with is_pure_opd."},
                    {.is_infer = true, .is_rollout = true});
  }
  describe_rewards(v, c);
}

}  // namespace cohort::config
