/// verl's keys of the data and of models; the sections that several roles have.
#include "runtime/config/verl/verl_describe.hpp"

namespace cohort::config {
namespace {

constexpr std::string_view k_engine = "the built-in engine has no such part";
constexpr double k_tokens_max = 1 << 24;

void describe_data_sampling(Visitor& v, VerlData& d) {
  v.key({"shuffle", "driver", "Rows in a new order every epoch; False: as in the files."},
        d.shuffle);
  v.key({"seed", "driver",
         "Fixes the order of the rows; ~ in verl: not reproducible, here: the run's `seed`."},
        d.seed);
  v.key({"filter_overlong_prompts", "driver",
         "Rows whose chat-templated prompt is longer than max_prompt_length are dropped at the "
         "start."},
        d.filter_overlong_prompts);
  v.key({"truncation", "driver",
         "A prompt above max_prompt_length: error = the row is refused at load, left, right or "
         "middle = these tokens are cut. verl's own RL path reads it nowhere."},
        d.truncation);
  v.key({"train_rows", "config",
         "Ours: rows of train_files, for a plan made where the files are not.", at_least(1)},
        d.train_rows);
}

}  // namespace

void describe_verl_data(Visitor& v, VerlConfig& c) {
  VerlData& d = c.data;
  if (!v.enter({"data", "driver", "Prompts."}, true)) return;
  v.text_or_texts({"train_files", "driver", "Files of the training rows, parquet or jsonl."},
                  d.train_files);
  v.text_or_texts({"val_files", "driver", "Files of the evaluation rows."}, d.val_files);
  v.key({"train_max_samples", "driver", "Rows used of train_files; -1: all.", at_least(-1)},
        d.train_max_samples);
  v.key(
      {"val_max_samples", "driver", "The first so many rows of val_files; -1: all.", at_least(-1)},
      d.val_max_samples);
  v.key({"prompt_key", "driver", "Column with the chat of a row."}, d.prompt_key);
  v.key({"reward_fn_key", "reward", "Column whose value picks the scorer."}, d.reward_fn_key);
  v.json_map({"apply_chat_template_kwargs", "driver", "More variables of the chat template."},
             d.apply_chat_template_kwargs);
  v.key({"max_prompt_length", "driver", "Bound on the prompt (P).", between(1, k_tokens_max)},
        d.max_prompt_length);
  v.key({"max_response_length", "rollout", "Bound on the answer (R); generation stops there.",
         between(1, k_tokens_max)},
        d.max_response_length);
  v.key({"train_batch_size", "driver", "Prompts of a step, before they are sampled n times.",
         between(1, 1 << 24)},
        d.train_batch_size);
  v.key({"gen_batch_size", "driver",
         "Prompts of one generation when filter_groups asks for more; ~: train_batch_size.",
         between(1, 1 << 24)},
        d.gen_batch_size);
  v.key(
      {"val_batch_size", "driver", "Prompts of an evaluation batch; ~: all.", between(1, 1 << 24)},
      d.val_batch_size);
  describe_data_sampling(v, d);
  v.inert("tokenizer", "the tokenizer is the model's");
  v.inert(
      "use_shm dataloader_num_workers filter_overlong_prompts_workers return_raw_input_ids "
      "return_raw_chat return_full_prompt",
      "belongs to verl's Python data loader");
  v.inert("validation_shuffle", "an evaluation covers its rows in file order");
  v.inert(
      "image_key video_key audio_key image_patch_size return_multi_modal_inputs "
      "mm_processor_kwargs",
      "text models only");
  v.inert("trust_remote_code custom_cls sampler datagen",
          "Python classes are not loaded; rewards and environments are plugins");
  v.inert("tool_config_path function_tool_path",
          "tools come from rollout.multi_turn.tool_config_path");
  v.leave();
}

namespace {

void describe_megatron_lora(Visitor& v, VerlMegatronLora& lora) {
  if (!v.enter({"lora", "trainer", "Adapters of the megatron engine, by its names of layers."},
               true))
    return;
  v.key({"rank", "trainer", "As lora_rank; read with actor.strategy megatron.", between(0, 65536)},
        lora.rank);
  v.key({"alpha", "trainer", "As lora_alpha.", at_least(0)}, lora.alpha);
  v.text_or_texts({"target_modules", "trainer",
                   "linear_qkv, linear_proj, linear_fc1, linear_fc2: as target_modules q_proj, "
                   "k_proj and v_proj; o_proj; gate_proj and up_proj; down_proj."},
                  lora.targets);
  v.text_or_texts({"exclude_modules", "trainer", "Of these, the layers without adapters."},
                  lora.excluded);
  v.rest("adapters are f32, without dropout, as PEFT draws them", "");
  v.leave();
}

}  // namespace

void describe_verl_model(Visitor& v, const Key& key, VerlModel& m, bool is_critic) {
  if (!v.enter(key, true)) return;
  v.nullable_text({"path", "trainer, rollout",
                   "Checkpoint folder or Hugging Face name; required for the policy."},
                  m.path);
  v.nullable_text({"tokenizer_path", "rollout", "Folder of the tokenizer; ~: path."},
                  m.tokenizer_path);
  v.key({"enable_gradient_checkpointing", "trainer, plan",
         "Activations are computed again in the backward pass."},
        m.enable_gradient_checkpointing);
  v.key({"enable_activation_offload", "plan", "Kept activations go to the host."},
        m.enable_activation_offload);
  v.key({"use_remove_padding", "config",
         "verl's packing. Batches are packed here with either value."},
        m.use_remove_padding);
  v.key({"lora_rank", "trainer", "Rank of LoRA adapters; 0: full fine-tuning.", between(0, 65536)},
        m.lora.rank);
  v.key({"lora_alpha", "trainer", "LoRA's scale is alpha / rank.", at_least(0)}, m.lora.alpha);
  v.text_or_texts({"target_modules", "trainer",
                   "Modules with an adapter: names, all-linear, or an expression that full names "
                   "match."},
                  m.lora.targets);
  v.text_or_texts({"exclude_modules", "trainer",
                   "Modules that get no adapter all the same: names, or an expression."},
                  m.lora.excluded);
  v.nullable_text(
      {"lora_adapter_path", "trainer",
       "Folder with a PEFT adapter to start from; rank, alpha and modules are then its."},
      m.lora.adapter_path);
  describe_megatron_lora(v, m.megatron_lora);
  v.inert("hf_config_path override_config", "the shape is that of config.json in path");
  v.inert("use_shm external_lib trust_remote_code input_tokenizer",
          "no Python code of the model is loaded");
  v.inert("custom_chat_template", "the chat template is the tokenizer's");
  v.inert("use_liger use_fused_kernels fused_kernel_options tiled_mlp",
          "kernels are the built-in engine's");
  v.inert("mtp model_config moe_config", k_engine);
  if (is_critic)
    describe_verl_fsdp(v, {"fsdp_config", "plan", "The critic's FSDP engine."}, m.fsdp_config);
  v.leave();
}

void describe_verl_optim(Visitor& v, VerlOptim& o) {
  if (!v.enter({"optim", "trainer", "AdamW and its schedule."}, true)) return;
  v.key({"lr", "trainer", "Peak learning rate.", at_least(0)}, o.lr);
  v.key({"lr_warmup_steps", "trainer",
         "Steps of linear warm-up, counted in RL steps; negative: lr_warmup_steps_ratio."},
        o.lr_warmup_steps);
  v.key({"lr_warmup_steps_ratio", "trainer", "Warm-up as a share of the run.", between(0, 1)},
        o.lr_warmup_steps_ratio);
  v.key({"total_training_steps", "config",
         "Steps of the schedule; verl sets it from the trainer's, so does this."},
        o.total_training_steps);
  v.key({"weight_decay", "trainer", "AdamW's decay.", at_least(0)}, o.weight_decay);
  v.key({"betas", "trainer", "Decays of the two moments.", {0, 1, false, true}}, o.betas);
  v.key({"clip_grad", "trainer", "Gradient norm of the megatron engine; fsdp has grad_clip.",
         above(0)},
        o.clip_grad);
  v.key({"min_lr_ratio", "trainer", "Floor of the cosine, as a share of lr.", between(0, 1)},
        o.min_lr_ratio);
  v.key({"num_cycles", "trainer", "Periods of the cosine.", above(0)}, o.num_cycles);
  v.key({"lr_scheduler_type", "trainer", "Course after the warm-up, per RL step."},
        o.lr_scheduler_type);
  v.key({"warmup_style", "trainer", "The older name of lr_scheduler_type."}, o.warmup_style);
  v.inert("optimizer optimizer_impl override_optimizer_config",
          "the optimizer is AdamW with fp32 master weights");
  v.inert(
      "zero_indexed_step lr_warmup_init lr_decay_steps lr_decay_style min_lr "
      "weight_decay_incr_style lr_wsd_decay_style lr_wsd_decay_steps "
      "use_checkpoint_opt_param_scheduler",
      "belongs to Megatron's own scheduler");
  v.leave();
}

void describe_verl_fsdp(Visitor& v, const Key& key, VerlFsdp& f) {
  if (!v.enter(key, true)) return;
  v.key({"param_offload", "plan", "Weights are on the host between phases."}, f.param_offload);
  v.key({"optimizer_offload", "plan", "Optimizer states are on the host between phases."},
        f.optimizer_offload);
  v.key({"offload_policy", "plan",
         "fsdp2: weights, gradients and optimizer stay on the host and are streamed."},
        f.offload_policy);
  v.key({"reshard_after_forward", "plan", "true: as ZeRO 3, false: as ZeRO 2."},
        f.reshard_after_forward);
  v.key(
      {"fsdp_size", "plan", "Cards that share one copy of the model; -1: all.", between(-1, 65536)},
      f.fsdp_size);
  v.key({"dtype", "compute", "Type of the weights in computation."}, f.dtype);
  v.inert("grad_offload", "verl has dropped it: gradients are gone between phases");
  v.inert("model_dtype", "master weights are fp32");
  v.inert(
      "wrap_policy forward_prefetch use_orig_params mixed_precision "
      "use_no_sync_for_gradient_accumulation",
      "belongs to PyTorch's FSDP");
  v.inert("seed full_determinism", "use the run's seed and determinism");
  v.inert("ulysses_sequence_parallel_size", "the role's own key of that name decides");
  v.inert("entropy_from_logits_with_chunking entropy_from_logits_chunk_size entropy_checkpointing",
          "log-probabilities and entropy are always computed in chunks");
  v.inert(
      "use_torch_compile pad_to_length pad_to_length_bucket forward_only strategy qat turbo_config",
      k_engine);
  v.leave();
}

namespace {

void describe_megatron_sizes(Visitor& v, VerlMegatron& m) {
  v.key({"tensor_model_parallel_size", "plan", "Cards that cut a layer (TP).", between(1, 65536)},
        m.tensor_model_parallel_size);
  v.key({"expert_model_parallel_size", "plan", "Cards over which experts lie (EP).",
         between(1, 65536)},
        m.expert_model_parallel_size);
  v.key({"expert_tensor_parallel_size", "plan", "TP of the experts; ~: TP.", between(1, 65536)},
        m.expert_tensor_parallel_size);
  v.key({"pipeline_model_parallel_size", "plan", "Stages of layers (PP).", between(1, 65536)},
        m.pipeline_model_parallel_size);
  v.key({"virtual_pipeline_model_parallel_size", "plan", "Virtual stages of a card.",
         between(1, 65536)},
        m.virtual_pipeline_model_parallel_size);
  v.key({"context_parallel_size", "plan", "Cards that cut a sequence (CP).", between(1, 65536)},
        m.context_parallel_size);
}

}  // namespace

void describe_verl_megatron(Visitor& v, VerlMegatron& m) {
  if (!v.enter({"megatron", "plan", "Megatron's (and MindSpeed's) engine."}, true)) return;
  v.key({"param_offload", "plan", "Weights are on the host between phases."}, m.param_offload);
  v.key({"grad_offload", "plan", "Gradients are on the host between phases."}, m.grad_offload);
  v.key({"optimizer_offload", "plan", "Optimizer states are on the host between phases."},
        m.optimizer_offload);
  describe_megatron_sizes(v, m);
  v.key({"sequence_parallel", "plan", "Norms are cut along the sequence beside TP."},
        m.sequence_parallel);
  v.key({"use_distributed_optimizer", "plan", "Optimizer states are cut over data-parallel cards."},
        m.use_distributed_optimizer);
  v.key({"dtype", "compute", "Type of the weights in computation."}, m.dtype);
  v.free_map({"override_transformer_config", "plan",
              "Switches handed to Megatron or MindSpeed; read here: recompute_granularity, "
              "swap_optimizer. The rest picks kernels and has no effect."},
             m.override_transformer_config);
  v.inert(
      "use_dist_checkpointing dist_checkpointing_path dist_checkpointing_prefix use_mbridge "
      "vanilla_mbridge",
      "checkpoints are Hugging Face's layout, or Cohort's own");
  v.inert(
      "override_ddp_config override_mcore_model_config extra use_remove_padding forward_only "
      "use_megatron_fsdp qat",
      k_engine);
  v.inert("seed", "use the run's seed");
  v.leave();
}

}  // namespace cohort::config
