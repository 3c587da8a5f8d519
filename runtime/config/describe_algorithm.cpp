/// Keys of the run and of the algorithm: top level of the file, as ROLL names them.
#include "runtime/config/visitor.hpp"

namespace cohort::config {
namespace {

void describe_run(Visitor& v, RunConfig& c) {
  v.text({"exp_name", "run folder",
          "Name of the experiment; the run folder is output_dir/exp_name/<run id>."},
         c.exp_name);
  v.integer({"seed", "everything", "Fixes initialisation, environment maps, sampling and order.",
             at_least(0)},
            c.seed);
  v.text({"output_dir", "run folder", "Where run folders go."}, c.output_dir);
  v.integer({"max_steps", "driver", "Policy iterations of the run.", between(1, 10'000'000)},
            c.max_steps);
  v.integer({"save_steps", "driver", "A checkpoint every so many steps, and after the last.",
             at_least(1)},
            c.save_steps);
  v.integer({"eval_steps", "driver",
             "An evaluation every so many steps, before the first and after the last; "
             "0 or less: never."},
            c.eval_steps);
  v.integer({"logging_steps", "console",
             "A console line every so many steps; metrics.jsonl has every step.", at_least(1)},
            c.logging_steps);
  v.integer(
      {"keep_checkpoints", "driver", "Checkpoints kept, the newest ones; 0: all.", at_least(0)},
      c.keep_checkpoints);
  v.resume({"resume_from_checkpoint", "driver",
            "true: go on from the newest checkpoint of output_dir/exp_name; "
            "a path: from that checkpoint."},
           c.resume_from_checkpoint);
  v.integer({"num_gpus_per_node", "placement",
             "Cards of a node; on the cpu platform virtual ones. Card ids are "
             "0 to this minus 1.",
             between(1, 4096)},
            c.num_gpus_per_node);
  v.nullable_text({"pretrain", "trainer, rollout",
                   "Folder of a checkpoint to start from (config.json and "
                   "safetensors); ~: random initialisation of `model`."},
                  c.pretrain);
}

void describe_batches(Visitor& v, RunConfig& c) {
  v.integer({"rollout_batch_size", "driver",
             "Trajectories of one step; a multiple of train group_size. Negative: "
             "num_env_groups x group_size.",
             between(-1, 1 << 24)},
            c.rollout_batch_size);
  v.integer({"val_batch_size", "driver",
             "Trajectories of one evaluation; a multiple of val group_size. Negative: "
             "all val environments.",
             between(-1, 1 << 24)},
            c.val_batch_size);
  v.integer({"sequence_length", "rollout, trainer",
             "Bound on the tokens of a trajectory. Required, unless "
             "response_length is there.",
             between(0, 1 << 24)},
            c.sequence_length);
  v.integer({"response_length", "config",
             "Gives sequence_length = prompt_length + response_length when "
             "sequence_length is missing; 0: not given.",
             between(0, 1 << 24)},
            c.response_length);
  v.integer({"prompt_length", "config", "Prompt's part of sequence_length, see response_length.",
             between(1, 1 << 24)},
            c.prompt_length);
  v.integer({"max_tokens_per_step", "environments",
             "Answer tokens of one turn, for environments that do not say "
             "their own; 0: not given.",
             between(0, 1 << 20)},
            c.max_tokens_per_step);
}

void describe_estimator(Visitor& v, RunConfig& c) {
  v.choice({"adv_estimator", "trainer",
            "Advantage estimator. ROLL's default, gae, needs a critic and is not built "
            "in, so the key must be there."},
           c.adv_estimator);
  v.integer({"ppo_epochs", "trainer", "Passes over the trajectories of a step.", between(1, 1000)},
            c.ppo_epochs);
  v.number({"gamma", "trainer", "Discount per token of the return.", between(0, 1)}, c.gamma);
  v.number({"lambd", "trainer", "Lambda of gae; not used by the other estimators.", between(0, 1)},
           c.lambd);
  v.boolean({"whiten_advantages", "trainer",
             "Advantages of a step to mean 0 and variance 1 over its response "
             "tokens, before advantage_clip."},
            c.whiten_advantages);
  v.optional_number({"advantage_clip", "trainer",
                     "Advantages are clamped to plus and minus this, after whitening.", above(0)},
                    c.advantage_clip);
  v.optional_number({"reward_clip", "trainer",
                     "Trajectory rewards are clamped to plus and minus this, after "
                     "normalisation.",
                     above(0)},
                    c.reward_clip);
  if (v.enter({"reward_normalization", "trainer",
               "How trajectory scores become rewards: the baseline of GRPO."},
              true)) {
    RewardNormalization& norm = c.reward_normalization;
    v.choice({"grouping", "trainer",
              "What is compared: traj_group_id = the trajectories of one map, tags = of "
              "one environment tag, batch = of the step."},
             norm.grouping);
    v.choice({"method", "trainer",
              "identity: none; mean: minus the mean; mean_std and asym_clip: and divided by "
              "the deviation."},
             norm.method);
    v.optional_choice({"norm_mean_type", "trainer", "Scope of the mean; wins over method."},
                      norm.norm_mean_type);
    v.optional_choice({"norm_std_type", "trainer", "Scope of the deviation; wins over method."},
                      norm.norm_std_type);
    v.leave();
  }
}

void describe_kl(Visitor& v, RunConfig& c) {
  v.number({"init_kl_coef", "trainer",
            "Coefficient of the token KL. Above 0 a reference model is built, even if "
            "add_token_level_kl is false (ROLL's rule).",
            at_least(0)},
           c.init_kl_coef);
  v.choice({"kl_penalty", "trainer", "Estimator of the token KL."}, c.kl_penalty);
  v.boolean({"add_token_level_kl", "trainer", "Token rewards lose init_kl_coef times the KL."},
            c.add_token_level_kl);
  v.optional_number(
      {"target_kl", "trainer", "Makes the coefficient adaptive around this KL.", above(0)},
      c.target_kl);
  v.integer({"kl_horizon", "trainer", "Trajectories over which the adaptive coefficient moves.",
             at_least(1)},
            c.kl_horizon);
  v.boolean({"use_kl_loss", "trainer", "Adds kl_loss_coef times the k3 estimate to the loss."},
            c.use_kl_loss);
  v.number({"kl_loss_coef", "trainer", "Coefficient of use_kl_loss.", at_least(0)}, c.kl_loss_coef);
}

void describe_loss(Visitor& v, RunConfig& c) {
  v.number({"pg_clip", "trainer", "Clip range of the probability ratio.", {0, 1, true, false}},
           c.pg_clip);
  v.boolean(
      {"use_pg_clip_range", "trainer", "Uses pg_clip_low and pg_clip_high in place of pg_clip."},
      c.use_pg_clip_range);
  v.number({"pg_clip_low", "trainer", "Ratio below 1 - this is clipped.", {0, 1, true, false}},
           c.pg_clip_low);
  v.number({"pg_clip_high", "trainer", "Ratio above 1 + this is clipped.", above(0)},
           c.pg_clip_high);
  v.boolean(
      {"dual_clip_loss", "trainer", "Bounds the loss of negative advantages at 1 + 2 pg_clip."},
      c.dual_clip_loss);
  v.choice({"loss_agg_mode", "trainer",
            "How token losses become one number; counts are those of the whole "
            "optimizer batch."},
           c.loss_agg_mode);
  v.number(
      {"entropy_loss_coef", "trainer", "The loss loses this times the mean entropy.", at_least(0)},
      c.entropy_loss_coef);
  v.number({"max_grad_norm", "trainer", "Gradients are scaled down to this norm.", above(0)},
           c.max_grad_norm);
}

void describe_not_built(Visitor& v) {
  v.only({"async_generation_ratio", "config", "generation and update take turns"}, "0");
  v.only({"num_return_sequences_in_group", "config", "agentic runs take the group from group_size"},
         "1");
  v.only({"whiten_rewards", "config", "use reward_normalization"}, "false");
  v.only({"norm_mean_type", "config", "use reward_normalization"}, "~");
  v.only({"norm_std_type", "config", "use reward_normalization"}, "~");
  v.only({"ratio_type", "config", "the ratio is per token"}, "token");
}

}  // namespace

void describe_algorithm(Visitor& v, RunConfig& c) {
  describe_run(v, c);
  describe_batches(v, c);
  describe_estimator(v, c);
  describe_kl(v, c);
  describe_loss(v, c);
  describe_not_built(v);
  v.inert({"hydra"}, "the run folder follows output_dir, exp_name and the run id");
  v.inert({"logging_dir", "render_save_dir", "checkpoint_config", "rollout_dump_dir",
           "profiler_output_dir"},
          "everything a run leaves is in its folder under output_dir");
  v.inert({"system_envs"},
          "one process runs the roles: set environment variables where you start it");
  v.inert({"reward_pretrain", "critic", "critic_warmup", "value_clip"},
          "no critic is built: only adv_estimator gae needs one");
  v.inert({"track_with", "tracker_kwargs"},
          "metrics.jsonl and TensorBoard files are always written");
  v.inert({"num_nodes", "rpc_timeout", "alive_check_interval", "model_update_buffer_size_mb",
           "offload_nccl", "local_rank", "model_download_type", "partial_gpu_mode"},
          "belongs to ROLL's Ray and collective set-up");
  v.inert({"batch_adjust_mode"}, "batches are never padded with copies: sizes must divide");
  v.inert(
      {"enable_reference", "enable_old_logprobs_recompute", "force_disable_old_logprobs_recompute"},
      "Cohort decides by itself: a reference when a KL needs it, log-probabilities of the sampling "
      "always kept");
  v.inert({"step_reward_gamma", "episode_reward_weight", "step_reward_weight"},
          "only the estimators gigpo and step_reinforce use it");
  v.inert({"max_ckpt_to_keep"}, "use keep_checkpoints");
  v.inert({"pg_variant", "use_remove_padding", "use_topr_loss", "use_topr_neg_loss_coef",
           "use_policy_loss_type", "postive_loss_coef", "minibatch_data_iter_num", "balance_length",
           "l2", "use_reward_scaling", "use_reward_norm", "add_len_reward", "global_scale_factor",
           "global_shift_value", "dirty_data_mask", "dataset_filter"},
          "ROLL accepts it and reads it nowhere");
  v.inert(
      {"profiler_timeline", "profiler_memory", "report_length_and_rewards", "length_profiler_dir"},
      "every run leaves a trace and a report");
  v.inert({"val_prompt_length", "val_sequence_length"}, "evaluation uses sequence_length");
  v.inert({"custom_env", "env_manager_cls", "all_response_pattern", "action_pattern",
           "think_action_pattern", "max_actions_per_traj", "sokoban_format_penalty",
           "frozen_format_penalty", "agent_system_template", "agent_template",
           "single_prompt_agent_system_template", "single_prompt_agent_template",
           "agent_runner_cls", "deepspeed_zero", "deepspeed_zero2", "deepspeed_zero2_cpuoffload",
           "deepspeed_zero3", "deepspeed_zero3_cpuoffload"},
          "a definition for ${...}, and nothing in this config names it");
}

void describe(Visitor& v, RunConfig& c) {
  describe_algorithm(v, c);
  describe_roles(v, c);
  describe_environments(v, c);
  describe_runtime(v, c);
}

}  // namespace cohort::config
