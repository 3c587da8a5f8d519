/// Keys of the policy's shape and of the roles actor_train, actor_infer, reference and rewards.
#include "runtime/config/visitor.hpp"

namespace cohort::config {
namespace {

void describe_model(Visitor& v, ModelSection& m) {
  if (!v.enter({"model", "trainer, rollout",
                "Shape of the policy when `pretrain` is ~ (Hugging Face's names)."},
               m.is_configured))
    return;
  m.is_configured = true;
  v.integer({"hidden_size", "compute", "Width of the residual stream.", between(1, 1 << 20)},
            m.hidden_size);
  v.integer({"num_hidden_layers", "compute", "Decoder blocks.", between(1, 4096)},
            m.num_hidden_layers);
  v.integer({"num_attention_heads", "compute", "Query heads.", between(1, 4096)},
            m.num_attention_heads);
  v.integer({"num_key_value_heads", "compute", "Key and value heads; divides num_attention_heads.",
             between(1, 4096)},
            m.num_key_value_heads);
  v.integer({"head_dim", "compute", "Width of a head, even; 0: hidden_size / num_attention_heads.",
             between(0, 4096)},
            m.head_dim);
  v.integer({"intermediate_size", "compute", "Width of the SwiGLU block.", between(1, 1 << 22)},
            m.intermediate_size);
  v.number({"rope_theta", "compute", "Base of the rotary positions.", above(1)}, m.rope_theta);
  v.number({"rms_norm_eps", "compute", "Added to the mean square in RMSNorm.", above(0)},
           m.rms_norm_eps);
  v.number({"initializer_range", "compute", "Deviation of the random initial weights.", above(0)},
           m.initializer_range);
  v.boolean({"attention_bias", "compute", "Biases on q, k and v."}, m.attention_bias);
  v.boolean({"tie_word_embeddings", "compute", "The output matrix is the embedding."},
            m.tie_word_embeddings);
  v.tokenizer({"tokenizer", "environments, rollout",
               "Name of a built-in vocabulary, or the words in id order; "
               "its length is vocab_size."},
              m.tokenizer, m.vocabulary);
  v.leave();
}

void describe_model_args(Visitor& v, ModelArgs& m) {
  if (!v.enter({"model_args", "compute", "Numeric type of the role."}, true)) return;
  v.choice({"dtype", "compute",
            "Type of the weights in computation; master weights are fp32. fp16 is not built "
            "in."},
           m.dtype);
  v.only({"model_name_or_path", "config", "all roles start from `pretrain`"}, "~");
  v.only({"lora_target", "config", "full fine-tuning only"}, "~");
  v.inert({"attn_implementation", "flash_attn"}, "the built-in engine has one attention kernel");
  v.inert({"disable_gradient_checkpointing"}, "activations of a micro-batch are always kept");
  v.inert({"model_type"}, "the built-in decoder is used");
  v.inert({"ulysses_size"}, "sequences are not split over cards");
  v.inert({"lora_rank", "lora_alpha"}, "without lora_target there is no LoRA");
  v.inert({"freeze_module_prefix", "additional_target", "moe_aux_loss_coef", "model_config_kwargs"},
          "the built-in decoder has no such part");
  v.leave();
}

void describe_training_args(Visitor& v, TrainingArgs& t) {
  if (!v.enter({"training_args", "trainer", "Optimizer and its batches."}, true)) return;
  v.number({"learning_rate", "trainer", "Peak learning rate of AdamW.", at_least(0)},
           t.learning_rate);
  v.number({"weight_decay", "trainer", "AdamW's decay; not on biases and norms.", at_least(0)},
           t.weight_decay);
  v.integer({"per_device_train_batch_size", "trainer",
             "Trajectories of a card per accumulation step (P).", between(1, 1 << 20)},
            t.per_device_train_batch_size);
  v.integer(
      {"gradient_accumulation_steps", "trainer",
       "Accumulation steps of an optimizer step (A). P x A x train "
       "cards trajectories make one optimizer step; how they are packed is micro_batch_tokens'.",
       between(1, 1 << 20)},
      t.gradient_accumulation_steps);
  v.integer({"warmup_steps", "trainer",
             "Optimizer steps of linear warm-up; 0: warmup_ratio decides.", at_least(0)},
            t.warmup_steps);
  v.number({"warmup_ratio", "trainer", "Warm-up as a share of all optimizer steps.", between(0, 1)},
           t.warmup_ratio);
  v.choice({"lr_scheduler_type", "trainer", "Course of the learning rate after the warm-up."},
           t.lr_scheduler_type);
  v.number({"adam_beta1", "trainer", "Decay of the first moment.", {0, 1, false, true}},
           t.adam_beta1);
  v.number({"adam_beta2", "trainer", "Decay of the second moment.", {0, 1, false, true}},
           t.adam_beta2);
  v.number({"adam_epsilon", "trainer", "Added to the root of the second moment.", above(0)},
           t.adam_epsilon);
  v.inert({"num_train_epochs", "max_steps"}, "max_steps at the top decides how long the run is");
  v.inert({"output_dir", "logging_steps", "save_steps", "max_grad_norm", "seed", "bf16", "fp16"},
          "the key at the top of the file, or model_args.dtype, decides");
  v.leave();
}

void describe_generating_args(Visitor& v, GeneratingArgs& g) {
  if (!v.enter({"generating_args", "rollout", "Sampling."}, true)) return;
  v.integer({"max_new_tokens", "rollout",
             "Bound on the answer of one turn, with max_tokens_per_step.", between(1, 1 << 24)},
            g.max_new_tokens);
  v.number({"top_p", "rollout", "Nucleus sampling; 1: off.", {0, 1, true, false}}, g.top_p);
  v.integer({"top_k", "rollout", "The k most likely tokens; 0 or -1: off.", at_least(-1)}, g.top_k);
  v.number({"temperature", "rollout",
            "Of training rollouts; 0: greedy. Log-probabilities are those of temperature "
            "1.",
            at_least(0)},
           g.temperature);
  v.only({"num_beams", "config", "sampling only"}, "1");
  v.only({"num_return_sequences", "config", "agentic runs take the group from group_size"}, "1");
  v.only({"repetition_penalty", "config", "sampling only"}, "1");
  v.only({"stop_strings", "config", "a turn ends with the end-of-turn token"}, "~");
  v.inert({"logprobs", "do_sample", "include_stop_str_in_output"},
          "behaviour log-probabilities of every sampled token are always kept");
  v.leave();
}

void describe_strategy(Visitor& v, WorkerConfig& w) {
  if (!v.enter({"strategy_args", "config", "ROLL's engine of the role."}, true)) return;
  v.nullable_text({"strategy_name", "config",
                   "ROLL's name of an engine; the built-in engine serves every one."},
                  w.strategy_name);
  v.inert({"strategy_config"},
          "the built-in engine is used; its settings are cards, micro_batch_tokens and "
          "max_running_requests");
  v.leave();
}

void describe_worker(Visitor& v, WorkerConfig& w, const Key& key, bool is_train, bool is_infer) {
  if (!v.enter(key, w.is_configured)) return;
  w.is_configured = true;
  v.cards({"device_mapping", "placement",
           "Cards of the role: a list, or sums of list(range(a,b,c)) and "
           "list([a,b])."},
          w.device_mapping);
  v.integer({"infer_batch_size", "compute", "Trajectories of one log-probability batch.",
             between(1, 1 << 20)},
            w.infer_batch_size);
  describe_model_args(v, w.model_args);
  describe_strategy(v, w);
  if (is_train)
    describe_training_args(v, w.training_args);
  else
    v.inert({"training_args"}, "the role does not train");
  if (is_infer)
    describe_generating_args(v, w.generating_args);
  else
    v.inert({"generating_args"}, "the role does not generate");
  v.inert({"data_args"}, "environments make the data; prompts come from their templates");
  v.inert({"pg_variant"}, "the loss is PPO's clipped one");
  v.inert({"world_size", "num_gpus_per_worker"}, "follows from device_mapping");
  v.inert({"system_envs"},
          "one process runs the roles: set environment variables where you start it");
  v.inert({"worker_cls", "name", "backend_timeout", "checkpoint_config", "offload_nccl",
           "logits_in_fp32", "max_concurrency", "apply_loss_scale"},
          "belongs to ROLL's Ray workers");
  v.inert(
      {"use_remove_padding", "use_dynamic_batching_in_train", "use_dynamic_batching_in_infer",
       "max_tokens_per_microbatch_in_train", "max_tokens_per_microbatch_in_infer",
       "use_sequence_packing", "sequence_length_round_in_train", "sequence_length_round_in_infer"},
      "batches are always packed; see micro_batch_tokens");
  v.leave();
}

void describe_rewards(Visitor& v, RunConfig& c) {
  std::vector<std::string> names;
  for (const auto& [name, reward] : c.rewards) names.push_back(name);
  v.each({"rewards", "reward",
          "Named parts of the score, added up with their weights. Without the key: one part "
          "env_return of weight 1."},
         names, [&](const std::string& name) {
           RewardConfig& reward = c.rewards[name];
           v.choice({"type", "reward", "env_return: the sum of what the environment paid."},
                    reward.type);
           v.number({"weight", "reward", "Factor of this part."}, reward.weight);
           v.inert({"worker_cls", "world_size", "infer_batch_size", "model_args", "data_args",
                    "strategy_args", "device_mapping", "tag_included", "query_filter_config",
                    "response_filter_config", "use_local", "code_url", "judge_prompt",
                    "judge_model_type", "generating_args"},
                   "belongs to ROLL's reward workers");
         });
}

}  // namespace

void describe_roles(Visitor& v, RunConfig& c) {
  describe_model(v, c.model);
  describe_worker(v, c.actor_train, {"actor_train", "trainer", "The role that trains."}, true,
                  false);
  describe_worker(v, c.actor_infer, {"actor_infer", "rollout", "The role that generates."}, false,
                  true);
  describe_worker(v, c.reference,
                  {"reference", "reference", "The frozen policy; built only when a KL needs it."},
                  false, false);
  describe_rewards(v, c);
}

}  // namespace cohort::config
