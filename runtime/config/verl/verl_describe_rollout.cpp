/// verl's keys of actor_rollout_ref.rollout and of rewards.
#include "runtime/config/roll/describe.hpp"
#include "runtime/config/verl/verl_describe.hpp"

namespace cohort::config {
namespace {

constexpr std::string_view k_no_part = "the built-in engine has no such part";

void describe_sampling(Visitor& v, VerlSampling& s) {
  v.key(
      {"temperature", "rollout",
       "Logits are divided by this, in sampling and in log-probabilities; 0: greedy.", at_least(0)},
      s.temperature);
  v.key({"top_k", "rollout", "The k most likely tokens; 0 or -1: all.", at_least(-1)}, s.top_k);
  v.key({"top_p", "rollout", "Nucleus sampling; 1: off.", {0, 1, true, false}}, s.top_p);
  v.key({"do_sample", "rollout", "false: greedy."}, s.do_sample);
  v.key({"n", "rollout", "Answers to a prompt: the group.", between(1, 65536)}, s.n);
}

void describe_cards(Visitor& v, VerlRollout& r) {
  v.key({"tensor_model_parallel_size", "plan", "Cards that cut a layer in generation (TP).",
         between(1, 65536)},
        r.tensor_model_parallel_size);
  v.key({"data_parallel_size", "plan", "Data-parallel ranks of one engine.", between(1, 65536)},
        r.data_parallel_size);
  v.key({"expert_parallel_size", "plan", "Cards over which experts lie; 1 or TP x DP.",
         between(1, 65536)},
        r.expert_parallel_size);
  v.key({"pipeline_model_parallel_size", "plan", "Stages; verl's engines have only 1.",
         between(1, 65536)},
        r.pipeline_model_parallel_size);
}

void describe_engine(Visitor& v, VerlRollout& r) {
  v.key({"name", "plan",
         "verl's engine, required; the built-in one serves each. sglang_async is sglang."},
        r.name);
  v.key({"dtype", "compute", "Type of the weights in generation."}, r.dtype);
  v.key({"gpu_memory_utilization",
         "plan",
         "Share of a card's whole memory that weights, activations and KV cache may take.",
         {0, 1, true, false}},
        r.gpu_memory_utilization);
  v.key({"enforce_eager", "plan", "No graph capture."}, r.enforce_eager);
  v.key({"free_cache_engine", "plan", "The KV cache leaves its card between generations."},
        r.free_cache_engine);
  v.key({"max_num_batched_tokens", "plan", "Tokens of one engine pass.", between(1, 1 << 24)},
        r.max_num_batched_tokens);
  v.key({"max_model_len", "plan", "Bound on prompt and answer; ~: their two bounds.",
         between(1, 1 << 24)},
        r.max_model_len);
  v.key({"max_num_seqs", "rollout, plan", "Trajectories that generate at once in an engine.",
         between(1, 1 << 20)},
        r.max_num_seqs);
  v.key({"enable_chunked_prefill", "plan", "Long prompts are computed in parts."},
        r.enable_chunked_prefill);
  v.key({"enable_prefix_caching", "plan", "Equal prompt starts are computed once."},
        r.enable_prefix_caching);
  v.key({"load_format", "plan", "dummy: the engine waits for the first weights of the trainer."},
        r.load_format);
}

void describe_multi_turn(Visitor& v, VerlMultiTurn& m) {
  if (!v.enter({"multi_turn", "rollout", "Conversations with tools."}, true)) return;
  v.key({"enable", "rollout", "Whether answers may call tools (docs/tools.md)."}, m.enable);
  v.key({"max_assistant_turns", "rollout", "Bound on the model's turns; ~: none.", at_least(1)},
        m.max_assistant_turns);
  v.key({"max_user_turns", "rollout", "Bound on the other side's; ~: none.", at_least(1)},
        m.max_user_turns);
  v.nullable_text({"tool_config_path", "rollout", "File that lists the tools."},
                  m.tool_config_path);
  v.nullable_text({"interaction_config_path", "rollout", "File that lists the interactions."},
                  m.interaction_config_path);
  v.key({"max_parallel_calls", "rollout", "Calls of one answer that are run.", between(1, 1 << 10)},
        m.max_parallel_calls);
  v.key({"max_tool_response_length", "rollout", "Characters of a tool's text.", at_least(1)},
        m.max_tool_response_length);
  v.key({"tool_response_truncate_side", "rollout", "What stays of a longer one."},
        m.tool_response_truncate_side);
  v.key({"format", "rollout", "How answers write calls."}, m.format);
  v.inert("function_tool_path", "tools come from tool_config_path, or the top-level tools");
  v.inert(
      "use_inference_chat_template tokenization_sanity_check_mode num_repeat_rollouts "
      "completion_callback",
      "sampled tokens are never tokenised again");
  v.leave();
}

void describe_agent(Visitor& v, VerlRollout& r) {
  if (v.enter({"agent", "config", "verl's agent loops."}, true)) {
    v.key({"num_workers", "config", "Python processes that drive generation; here one actor does.",
           between(1, 65536)},
          r.agent_num_workers);
    v.inert(
        "default_agent_loop agent_loop_config_path custom_async_server agent_loop_manager_class",
        "agent loops are environments here");
    v.leave();
  }
  if (v.enter({"checkpoint_engine", "reshard", "How weights reach the engine."}, true)) {
    v.key({"update_weights_bucket_megabytes", "reshard", "Bucket of a weight transfer.",
           between(1, 1 << 20)},
          r.bucket_megabytes);
    v.inert("backend engine_kwargs custom_backend_module",
            "the reshard planner picks the transfer");
    v.leave();
  }
}

}  // namespace

void describe_verl_rollout(Visitor& v, VerlConfig& c) {
  VerlRollout& r = c.rollout;
  if (!v.enter({"rollout", "rollout", "The role that generates."}, true)) return;
  describe_engine(v, r);
  describe_cards(v, r);
  describe_sampling(v, r.sampling);
  if (v.enter({"val_kwargs", "rollout", "Sampling of evaluations."}, true)) {
    describe_sampling(v, r.val_kwargs);
    v.leave();
  }
  v.key({"prompt_length", "rollout", "~: data.max_prompt_length.", between(1, 1 << 24)},
        r.prompt_length);
  v.key({"response_length", "rollout", "~: data.max_response_length.", between(1, 1 << 24)},
        r.response_length);
  describe_verl_log_prob(v, r.micro);
  describe_multi_turn(v, r.multi_turn);
  describe_agent(v, r);
  v.key({"nnodes", "placement",
         "Nodes of a pool of its own, without hybrid_engine; ~ or 0: the top-level rollout.nnodes.",
         between(0, 65536)},
        c.rollout_pool.nnodes);
  v.key({"n_gpus_per_node", "placement", "Cards per node of that pool.", between(0, 65536)},
        c.rollout_pool.n_gpus_per_node);
  v.key(
      {"calculate_log_probs", "rollout", "Behaviour log-probabilities; they are always kept here."},
      r.calculate_log_probs);
  v.key({"mode", "config", "verl removed sync; both are the same here."}, r.mode);
  v.inert("update_weights_bucket_megabytes", "use checkpoint_engine");
  v.inert(
      "ignore_eos logprobs_mode scheduling_policy disable_log_stats cudagraph_capture_sizes "
      "multi_stage_wake_up layered_summon skip_tokenizer_init engine_kwargs quantization "
      "quantization_config_file use_block_quant_rollout layer_name_map limit_images mtp qat "
      "disaggregation enable_rollout_routing_replay moe_load_balance_metrics_interval",
      k_no_part);
  v.inert("over_sample_rate", "a step waits for all its answers");
  v.inert("trace prometheus profiler profile_ranks profile_ranks_all profile_discrete",
          "every run leaves a trace and serves /metrics and /api");
  v.inert("skip_rollout skip_dump_dir", "`traj replay` runs a step again from the stream");
  v.inert("full_determinism seed", "use the run's seed and determinism");
  v.leave();
}

void describe_verl_log_prob(Visitor& v, VerlMicro& m) {
  v.key({"log_prob_micro_batch_size", "config",
         "Deprecated: trajectories of one forward pass over all cards.", between(1, 1 << 24)},
        m.micro_batch_size);
  v.key({"log_prob_micro_batch_size_per_gpu", "trainer, plan",
         "Trajectories of one forward pass on a card; required without dynamic batches.",
         between(1, 1 << 20)},
        m.micro_batch_size_per_gpu);
  v.key({"log_prob_use_dynamic_bsz", "trainer, plan",
         "Forward passes are cut by tokens; ~: as the actor."},
        m.use_dynamic_bsz);
  v.key({"log_prob_max_token_len_per_gpu", "trainer, plan",
         "Tokens of a forward pass on a card; ~: as the actor.", between(1, 1 << 30)},
        m.max_token_len_per_gpu);
}

namespace {

void describe_function(Visitor& v, VerlReward& r) {
  if (!v.enter({"custom_reward_function", "reward", "A reward of the user's own."}, true)) return;
  v.nullable_text({"path", "reward", "Python file, loaded as a plugin; ~: by data_source."},
                  r.function_path);
  v.nullable_text({"name", "reward", "Function in it."}, r.function_name);
  v.json_map({"reward_kwargs", "reward", "Keyword arguments of every call."}, r.function.args);
  describe_plugin_process(v, r.function, "reward");  // ours
  v.leave();
}

void describe_overlong(Visitor& v, const Key& key, VerlOverlongBuffer& o) {
  if (!v.enter(key, true)) return;
  v.key({"enable", "reward", "Long answers lose reward (DAPO)."}, o.enable);
  v.key({"len", "reward", "Tokens before the bound where the loss begins.", at_least(0)}, o.len);
  v.key({"penalty_factor", "reward", "Loss at the bound.", at_least(0)}, o.penalty_factor);
  v.inert("log", "reward parts are always kept");
  v.leave();
}

void describe_reward_kwargs(Visitor& v, VerlReward& r) {
  if (!v.enter({"reward_kwargs", "reward", "Arguments of the reward manager."}, true)) return;
  describe_overlong(v, {"overlong_buffer_cfg", "reward", "Overlong shaping."}, r.overlong_buffer);
  v.inert("max_resp_len", "follows from data.max_response_length");
  v.leave();
}

void describe_old_reward(Visitor& v, VerlReward& r) {
  if (!v.enter({"reward_model", "reward", "Rewards, in the older place."}, true)) return;
  v.key({"enable", "plan", "A model scores answers too."}, r.is_model_enabled);
  v.nullable_text(
      {"reward_manager", "reward", "naive, dapo, batch, prime, limited or one of your own."},
      r.manager);
  describe_reward_kwargs(v, r);
  describe_overlong(v, {"overlong_buffer", "reward", "Overlong shaping (DAPO recipe)."},
                    r.overlong_buffer);
  if (v.enter({"model", "plan", "The reward model."}, true)) {
    v.nullable_text({"path", "plan", "Its checkpoint folder."}, r.model_path);
    v.inert(
        "input_tokenizer external_lib trust_remote_code use_shm use_remove_padding "
        "use_fused_kernels fsdp_config override_config",
        "reward models are not built in");
    v.leave();
  }
  v.inert(
      "enable_resource_pool n_gpus_per_node nnodes strategy micro_batch_size "
      "micro_batch_size_per_gpu max_length use_dynamic_bsz forward_max_token_len_per_gpu "
      "ulysses_sequence_parallel_size rollout megatron nccl_timeout load_weight profiler "
      "data_processor_config",
      "reward models are not built in");
  v.inert(
      "launch_reward_fn_async num_workers use_reward_loop reward_loop_source "
      "reward_loop_module_path reward_loop_class_name",
      "a trajectory is scored as soon as it is finished");
  v.inert("sandbox_fusion", "code verdicts run in Cohort's own sandbox");
  v.leave();
}

void describe_manager(Visitor& v, std::string_view doc, std::string& manager) {
  if (!v.enter({"reward_manager", "reward", doc}, true)) return;
  v.nullable_text({"name", "reward", "naive, dapo, batch, prime, limited or one of your own."},
                  manager);
  v.inert("source module", "rewards of your own are plugins (custom_reward_function.path)");
  v.leave();
}

void describe_new_reward(Visitor& v, VerlReward& r) {
  if (!v.enter({"reward", "reward", "Rewards, in the newer place."}, true)) return;
  describe_function(v, r);
  describe_manager(v, "How a batch is scored.", r.manager);
  describe_reward_kwargs(v, r);
  if (v.enter({"reward_model", "plan", "A model that scores."}, true)) {
    v.key({"enable", "plan", "A model scores answers too."}, r.is_model_enabled);
    v.nullable_text({"model_path", "plan", "Its checkpoint folder."}, r.model_path);
    v.inert("enable_resource_pool n_gpus_per_node nnodes rollout model",
            "reward models are not built in");
    v.leave();
  }
  v.inert("num_workers", "a trajectory is scored as soon as it is finished");
  v.inert("sandbox_fusion", "code verdicts run in Cohort's own sandbox");
  v.leave();
}

}  // namespace

void describe_verl_reward(Visitor& v, VerlConfig& c) {
  describe_function(v, c.reward);
  describe_old_reward(v, c.reward);
  describe_new_reward(v, c.reward);
  describe_manager(v, "How a batch is scored (2026-01).", c.reward.manager);
  v.inert("sandbox_fusion", "code verdicts run in Cohort's own sandbox");
}

}  // namespace cohort::config
