/// strategy_args: the engine of a role. Which keys strategy_config has depends on the engine; the
/// table lists them all.
#include "runtime/config/roll/describe.hpp"

namespace cohort::config {
namespace {

constexpr std::string_view k_own_way = "the built-in engine has its own way here";

/// How the engines call their cuts: under another engine such a key is a mistake, not an option.
constexpr std::string_view k_parallel_keys =
    "tensor_parallel_size pipeline_parallel_size tensor_model_parallel_size "
    "pipeline_model_parallel_size expert_model_parallel_size context_parallel_size tp_size pp_size "
    "ep_size zero_optimization";

// Options that are accepted and do nothing here.
constexpr std::string_view k_deepspeed_tuning =
    "train_micro_batch_size_per_gpu train_batch_size gradient_accumulation_steps gradient_clipping "
    "bf16 fp16 optimizer scheduler checkpoint zero_allow_untested_optimizer "
    "zero_force_ds_cpu_optimizer steps_per_print wall_clock_breakdown communication_data_type "
    "prescale_gradients gradient_predivide_factor data_types amp torch_autocast tensor_parallel "
    "activation_checkpointing aio comms_logger flops_profiler sequence_parallel_size dump_state";
constexpr std::string_view k_megatron_tuning =
    "recompute_method recompute_num_layers recompute_modules moe_layer_recompute "
    "overlap_grad_reduce overlap_param_gather bucket_size expert_tensor_parallel_size "
    "moe_token_dispatcher_type moe_grouped_gemm moe_router_dtype moe_shared_expert_overlap "
    "moe_router_load_balancing_type moe_expert_capacity_factor "
    "moe_pad_expert_input_to_capacity moe_enable_deepep moe_permute_fusion moe_router_fusion "
    "moe_router_bias_update_rate moe_router_enable_expert_bias bias_activation_fusion "
    "bias_dropout_fusion masked_softmax_fusion gradient_accumulation_fusion apply_rope_fusion "
    "cross_entropy_loss_fusion cross_entropy_fusion_impl num_layers_in_first_pipeline_stage "
    "num_layers_in_last_pipeline_stage account_for_embedding_in_pipeline_split "
    "account_for_loss_in_pipeline_split pipeline_model_parallel_layout transformer_impl "
    "attention_backend use_cpu_initialization optimizer optimizer_cpu_offload "
    "optimizer_offload_fraction additional_configs ckpt_format async_save_ckpt save_hf_ckpt "
    "mtp_num_layers mtp_loss_scaling_factor fp8 fp8_recipe fp8_param calculate_per_token_loss "
    "cuda_graph_impl enable_cuda_graph grad_reduce_in_fp32 accumulate_allreduce_grads_in_fp32 "
    "distribute_saved_activations cp_comm_type hierarchical_context_parallel_sizes "
    "variable_seq_lengths batch_p2p_comm overlap_p2p_comm microbatch_group_size_per_vp_stage "
    "deallocate_pipeline_outputs tp_comm_overlap delay_wgrad_compute apply_layernorm_1p "
    "deterministic_mode weight_decay lr_decay_style min_lr freeze_language_model "
    "freeze_vision_model freeze_vision_projection";
constexpr std::string_view k_vllm_tuning =
    "disable_custom_all_reduce dtype seed swap_space cpu_offload_gb quantization trust_remote_code "
    "enable_expert_parallel data_parallel_size enable_sleep_mode enable_lora max_loras "
    "max_lora_rank lora_extra_vocab_size fully_sharded_loras hf_overrides rope_scaling tokenizer "
    "tokenizer_mode revision download_dir disable_log_stats disable_log_requests "
    "disable_mm_preprocessor_cache limit_mm_per_prompt mm_processor_kwargs mm_processor_cache_gb "
    "max_logprobs max_seq_len_to_capture scheduling_policy speculative_config compilation_config "
    "additional_config distributed_executor_backend worker_extension_cls worker_cls "
    "num_scheduler_steps async_scheduling logprobs_mode generation_config "
    "override_generation_config preemption_mode max_parallel_loading_workers use_v2_block_manager "
    "kv_transfer_config num_gpu_blocks_override VLLM_USE_V1 guided_decoding_backend "
    "disable_cascade_attn reasoning_parser model_impl";
constexpr std::string_view k_sglang_tuning =
    "max_running_requests context_length chunked_prefill_size cuda_graph_max_bs disable_cuda_graph "
    "disable_radix_cache dp_size attention_backend schedule_conservativeness num_gpus_per_worker "
    "use_prime_token enable_memory_saver dtype random_seed skip_tokenizer_init max_prefill_tokens "
    "page_size kv_cache_dtype log_level sleep_level tensor_parallel_size router_config nnodes "
    "trust_remote_code disable_custom_all_reduce moe_runner_backend enable_ep_moe "
    "enable_deterministic_inference speculative_algorithm";

enum class Family : uint8_t { deepspeed, fsdp2, megatron, vllm, sglang, plain };

Family family_of(Strategy x) {
  switch (x) {
    case Strategy::deepspeed_train:
    case Strategy::diffusion_deepspeed_train:
    case Strategy::deepspeed_infer:
      return Family::deepspeed;
    case Strategy::fsdp2_train:
    case Strategy::fsdp2_infer:
      return Family::fsdp2;
    case Strategy::megatron_train:
    case Strategy::megatron_infer:
      return Family::megatron;
    case Strategy::vllm:
      return Family::vllm;
    case Strategy::sglang:
      return Family::sglang;
    default:
      return Family::plain;
  }
}

constexpr Key parallel(std::string_view name, std::string_view doc) {
  return {name, "plan", doc, between(1, 4096)};
}

/// offload_optimizer, offload_param: {device: cpu | none, pin_memory: bool}.
void describe_offload(Visitor& v, const Key& key, bool& is_offloaded) {
  if (!v.enter(key, is_offloaded || v.is_listing())) return;
  auto read = [&](const Node& node) -> Expected<void> {
    bool is_cpu = node.kind == NodeKind::scalar && node.scalar == "cpu";
    bool is_none = node.kind == NodeKind::null || node.scalar == "none";
    if (!is_cpu && !is_none)
      return Error{Errc::config,
                   "expected cpu or none (nvme is not built in), got " + describe_value(node)};
    is_offloaded = is_cpu;
    return {};
  };
  v.value({"device", "plan", "cpu: kept in host memory; none: on the card."}, "cpu | none", read,
          [&] { return Node::make_scalar(is_offloaded ? "cpu" : "none", false); });
  v.tuning(
      "pin_memory ratio buffer_count buffer_size fast_init pipeline_read pipeline_write max_in_cpu "
      "nvme_path",
      k_own_way);
  v.leave();
}

void describe_deepspeed(Visitor& v, StrategySettings& s) {
  bool has_zero = s.zero_stage > 0 || s.offload_optimizer || s.offload_param;
  if (v.enter({"zero_optimization", "plan", "How DeepSpeed cuts the training state (ZeRO)."},
              has_zero || v.is_listing())) {
    v.key({"stage", "plan",
           "0: every card holds all; 1: optimizer state cut; 2: and gradients; 3: and weights.",
           between(0, 3)},
          s.zero_stage);
    describe_offload(
        v, {"offload_optimizer", "plan", "Where masters and moments are during the step."},
        s.offload_optimizer);
    describe_offload(v, {"offload_param", "plan", "Where the weights are between uses (stage 3)."},
                     s.offload_param);
    v.tuning(
        "allgather_partitions allgather_bucket_size overlap_comm reduce_scatter reduce_bucket_size "
        "contiguous_gradients sub_group_size stage3_prefetch_bucket_size "
        "stage3_param_persistence_threshold stage3_max_live_parameters stage3_max_reuse_distance "
        "stage3_gather_16bit_weights_on_model_save stage3_gather_fp16_weights_on_model_save "
        "round_robin_gradients zero_hpz_partition_size zero_quantized_weights "
        "zero_quantized_gradients ignore_unused_parameters elastic_checkpoint "
        "load_from_fp32_weights",
        "tunes DeepSpeed's buffers; the built-in engine has its own");
    v.leave();
  }
  v.tuning(k_deepspeed_tuning,
           "set by training_args, max_grad_norm and model_args.dtype (ROLL overwrites it), or "
           "tuning of DeepSpeed's own");
  v.rest("an option of DeepSpeed; the built-in engine is used", k_parallel_keys);
}

void describe_fsdp2(Visitor& v, StrategySettings& s) {
  v.nullable_integer(
      {"fsdp_size", "plan", "Cards that share one copy of the model; 0: all.", between(-1, 4096)},
      s.fsdp_size);
  v.key({"reshard_after_forward", "plan", "Gathered weights are dropped after the forward."},
        s.reshard_after_forward);
  v.key({"offload_policy", "plan", "Weights, gradients and optimizer live on the host."},
        s.offload_optimizer);
  s.offload_param = s.offload_optimizer;
  v.key(parallel("ep_size", "Cards over which experts are spread (EP)."), s.expert_parallel_size);
  v.tuning(
      "param_dtype reduce_dtype efsdp_size wrap_policy apply_tiled_mlp tiled_num_shards "
      "async_save_ckpt initialize_device_mesh apply_expert_patch cast_forward_inputs "
      "forward_prefetch backward_prefetch use_orig_params sharding_strategy cpu_offload "
      "mixed_precision",
      k_own_way);
  v.rest("an option of FSDP2; the built-in engine is used", k_parallel_keys);
}

void describe_megatron(Visitor& v, StrategySettings& s) {
  v.key(parallel("tensor_model_parallel_size", "Cards that share a layer (TP)."),
        s.tensor_parallel_size);
  v.key(parallel("pipeline_model_parallel_size", "Cards that share the depth (PP)."),
        s.pipeline_parallel_size);
  v.key(parallel("context_parallel_size", "Cards that share a sequence (CP)."),
        s.context_parallel_size);
  v.key(parallel("expert_model_parallel_size", "Cards over which experts are spread (EP)."),
        s.expert_parallel_size);
  v.nullable_integer({"virtual_pipeline_model_parallel_size", "plan",
                      "Model chunks of a pipeline stage; 0 or ~: one.", between(0, 4096)},
                     s.virtual_pipeline_size);
  v.key({"sequence_parallel", "plan", "Activations between layers are cut over the TP cards."},
        s.sequence_parallel);
  v.key({"use_distributed_optimizer", "plan", "Optimizer state is cut over the DP cards."},
        s.use_distributed_optimizer);
  auto read = [&s](const Node& node) -> Expected<void> {
    bool is_full = node.kind == NodeKind::scalar && node.scalar == "full";
    bool is_other = node.kind == NodeKind::null || node.scalar == "selective";
    if (!is_full && !is_other)
      return Error{Errc::config, "expected full, selective or ~, got " + describe_value(node)};
    s.recompute_granularity_full = is_full;
    return {};
  };
  v.value({"recompute_granularity", "plan", "full: activations of a layer are computed again."},
          "full | selective | ~", read, [&s] {
            return s.recompute_granularity_full ? Node::make_scalar("full", false) : Node{};
          });
  for (const std::string_view name : {"moe_aux_loss_coeff", "moe_z_loss_coeff"})
    if (s.strategy == Strategy::megatron_train || v.is_listing())
      v.refused({name, k_nobody,
                 "a loss on the router of experts is not built in: use 0, or remove the key"});
    else
      v.inert(name, "the role does not train");
  v.tuning(k_megatron_tuning, "tunes Megatron; the built-in engine has its own way here");
  v.rest("an option of Megatron; the built-in engine is used", k_parallel_keys);
}

void describe_engine(Visitor& v, StrategySettings& s) {
  v.key({"max_model_len", "plan", "Longest sequence the engine takes; ~: the model's own bound.",
         between(1, 1 << 24)},
        s.max_model_len);
  v.key({"max_num_batched_tokens", "plan", "Tokens of one engine step.", between(1, 1 << 24)},
        s.max_num_batched_tokens);
  v.key({"max_num_seqs", "plan", "Sequences of one engine step.", between(1, 1 << 20)},
        s.max_num_seqs);
}

void describe_vllm(Visitor& v, StrategySettings& s) {
  v.key({"gpu_memory_utilization",
         "plan",
         "Share of a card for weights, activations and KV cache.",
         {0, 1, true, false}},
        s.gpu_memory_utilization);
  v.key({"block_size", "plan", "Tokens of a KV block.", between(1, 4096)}, s.block_size);
  describe_engine(v, s);
  v.key(parallel("tensor_parallel_size", "Cards of a replica that share each layer (TP)."),
        s.tensor_parallel_size);
  v.key(parallel("pipeline_parallel_size", "Cards of a replica that share the depth (PP)."),
        s.pipeline_parallel_size);
  v.key({"enforce_eager", "plan", "No captured graphs."}, s.enforce_eager);
  v.key({"enable_prefix_caching", "plan", "Equal prompt beginnings share KV blocks."},
        s.enable_prefix_caching);
  v.key({"enable_chunked_prefill", "plan", "Long prompts are cut to fit an engine step."},
        s.enable_chunked_prefill);
  v.key({"load_format", "plan",
         "dummy: the first weights come from the trainer; auto: they are read from files first."},
        s.load_format);
  v.key({"kv_cache_dtype", "plan", "Type of the KV cache; auto: the weights'."}, s.kv_cache_dtype);
  v.key({"sleep_level", "plan",
         "What leaves the card between generations: 1 the weights to the host, 2 all dropped.",
         between(0, 2)},
        s.sleep_level);
  v.tuning(k_vllm_tuning, "an option of vLLM; the built-in engine is used");
  v.rest("an option of vLLM; the built-in engine is used", k_parallel_keys);
}

void describe_sglang(Visitor& v, StrategySettings& s) {
  v.key({"mem_fraction_static",
         "plan",
         "Share of a card for weights and KV cache (SGLang).",
         {0, 1, true, false}},
        s.gpu_memory_utilization);
  v.key(parallel("tp_size", "Cards of a replica that share each layer (TP)."),
        s.tensor_parallel_size);
  v.key(parallel("pp_size", "Cards of a replica that share the depth (PP)."),
        s.pipeline_parallel_size);
  v.key(parallel("ep_size", "Cards over which experts are spread (EP)."), s.expert_parallel_size);
  v.key({"load_format", "plan",
         "dummy: the first weights come from the trainer; auto: they are read from files first."},
        s.load_format);
  v.tuning(k_sglang_tuning, "an option of SGLang; the built-in engine is used");
  v.rest("an option of SGLang; the built-in engine is used", k_parallel_keys);
}

void describe_config(Visitor& v, StrategySettings& s) {
  Family family = family_of(s.strategy);
  bool is_all = v.is_listing();
  if (is_all || family == Family::deepspeed) describe_deepspeed(v, s);
  if (is_all || family == Family::fsdp2) describe_fsdp2(v, s);
  if (is_all || family == Family::megatron) describe_megatron(v, s);
  if (is_all || family == Family::vllm) describe_vllm(v, s);
  if (is_all || family == Family::sglang) describe_sglang(v, s);
  if (is_all || family == Family::plain) {
    v.tuning("device_map low_cpu_mem_usage attn_implementation", k_own_way);
    v.rest("an option of the named engine; the built-in one is used", {});
  }
}

}  // namespace

void describe_strategy(Visitor& v, StrategySettings& s) {
  if (!v.enter({"strategy_args", "config", "ROLL's engine of the role."}, true)) return;
  v.strategy({"strategy_name", "plan",
              "~: deepspeed_train, vllm or hf_infer by role. The named engine's way of cutting the "
              "model holds; the built-in engine serves all of them."},
             s);
  if (v.enter({"strategy_config", "plan", "The engine's own settings."}, true)) {
    describe_config(v, s);
    v.leave();
  }
  v.leave();
}

}  // namespace cohort::config
