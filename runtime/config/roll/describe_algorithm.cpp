/// Keys of the run and of the algorithm: top level of the file, as ROLL names them.
#include "runtime/config/roll/describe.hpp"

namespace cohort::config {
namespace {

void describe_run(Visitor& v, RunConfig& c) {
  v.key({"exp_name", "run folder",
         "Name of the experiment; the run folder is output_dir/exp_name/<run id>."},
        c.exp_name);
  v.key({"seed", "everything", "Fixes initialisation, environment maps, sampling and order.",
         at_least(0)},
        c.seed);
  v.key({"output_dir", "run folder", "Where run folders go."}, c.output_dir);
  v.key(
      {"max_steps", "driver",
       "Policy iterations of the run; -1: until Ctrl-C. sft, dpo, rm: optimizer steps; missing or "
       "-1: training_args of the role that trains decides.",
       between(-1, 10'000'000)},
      c.max_steps);
  v.key({"save_steps", "driver",
         "A checkpoint every so many steps, and after the last; 0: after the last alone.",
         at_least(0)},
        c.save_steps);
  v.key({"eval_steps", "driver",
         "An evaluation every so many steps, before the first and after the last; "
         "0 or less: never."},
        c.eval_steps);
  v.inert("logging_steps", "every step has a console line and a row of metrics.jsonl");
  v.key({"keep_checkpoints", "driver", "Checkpoints kept, the newest ones; 0: all.", at_least(0)},
        c.keep_checkpoints);
  v.key({"save_hf", "trainer",
         "Each checkpoint also becomes a Hugging Face folder, RUN/hf/step_N, which goes when its "
         "checkpoint goes (docs/models.md)."},
        c.save_hf);
  v.resume({"resume_from_checkpoint", "driver",
            "true: go on from the newest checkpoint of output_dir/exp_name; "
            "a path: from that checkpoint."},
           c.resume_from_checkpoint);
  v.key({"num_gpus_per_node", "placement",
         "Cards of a node; on the cpu platform virtual ones. A card's node is its id div this "
         "(ROLL takes the driver's count).",
         between(1, 4096)},
        c.num_gpus_per_node);
  v.nullable_integer({"num_nodes", "placement", "Nodes; 0 or missing: follows from the cards.",
                      between(0, 1 << 16)},
                     c.num_nodes);
  v.nullable_text({"pretrain", "trainer, rollout",
                   "Folder of a checkpoint to start from (config.json and safetensors); "
                   "random:<model> or random:<config.json>: that shape, drawn; ~: `model`, drawn. "
                   "A plan takes a name."},
                  c.pretrain);
  v.nullable_text({"reward_pretrain", "critic", "Folder that the critic starts from; ~: pretrain."},
                  c.reward_pretrain);
}

void describe_batches(Visitor& v, RunConfig& c) {
  v.key({"rollout_batch_size", "driver",
         "agentic: trajectories of one step, a multiple of train group_size; negative: "
         "num_env_groups x group_size. rlvr: prompts of one step.",
         between(-1, 1 << 24)},
        c.rollout_batch_size);
  v.key({"val_batch_size", "driver",
         "Trajectories of one evaluation; a multiple of val group_size. Negative: "
         "all val environments.",
         between(-1, 1 << 24)},
        c.val_batch_size);
  v.nullable_integer({"sequence_length", "rollout, trainer",
                      "Bound on the tokens of a trajectory. Required, unless "
                      "response_length is there.",
                      between(0, 1 << 24)},
                     c.sequence_length);
  v.nullable_integer({"response_length", "config",
                      "Gives sequence_length = prompt_length + response_length when "
                      "sequence_length is missing; 0: not given.",
                      between(0, 1 << 24)},
                     c.response_length);
  v.nullable_integer(
      {"prompt_length", "config", "Prompt's part of sequence_length, see response_length.",
       between(0, 1 << 24)},
      c.prompt_length);
  v.key({"max_tokens_per_step", "environments",
         "Answer tokens of one turn, for environments that do not say their own; 0: not given.",
         between(0, 1 << 20)},
        c.max_tokens_per_step);
}

void describe_estimator(Visitor& v, RunConfig& c) {
  v.key({"adv_estimator", "trainer",
         "Advantage estimator (docs/algorithms.md). ROLL's default, gae, needs a critic."},
        c.adv_estimator);
  v.key(
      {"step_reward_gamma", "trainer", "gigpo, step_reinforce: discount per turn.", between(0, 1)},
      c.step_reward_gamma);
  v.key({"step_reward_weight", "trainer", "gigpo: weight of the turns' part."},
        c.step_reward_weight);
  v.key({"episode_reward_weight", "trainer", "gigpo: weight of the whole trajectory's part."},
        c.episode_reward_weight);
  v.key({"gdpo_reward_keys", "trainer",
         "gdpo: names of the rewards that are normalised one by one; []: those of the score, with "
         "their weights."},
        c.gdpo_reward_keys);
  v.key({"gdpo_reward_weights", "trainer", "gdpo: their weights, one per key; []: 1 each."},
        c.gdpo_reward_weights);
  v.key({"value_clip", "critic",
         "gae: a value moves at most this far from the old one in the loss; ~: not clipped.",
         above(0)},
        c.value_clip);
  v.key({"critic_warmup", "trainer, critic", "gae: first steps, in which only the critic learns.",
         at_least(0)},
        c.critic_warmup);
  v.nullable_integer({"critic_epochs", "critic",
                      "gae: passes of the critic over the trajectories of a step; 0: ppo_epochs.",
                      between(0, 1000)},
                     c.critic_epochs);
  v.key({"ppo_epochs", "trainer", "Passes over the trajectories of a step.", between(1, 1000)},
        c.ppo_epochs);
  v.key({"gamma", "trainer", "Discount per token of the return.", between(0, 1)}, c.gamma);
  v.key({"lambd", "trainer", "Lambda of gae; not used by the other estimators.", between(0, 1)},
        c.lambd);
  v.key({"whiten_advantages", "trainer",
         "Advantages of a step to mean 0 and variance 1 over its response "
         "tokens, before advantage_clip."},
        c.whiten_advantages);
  v.key({"whiten_rewards", "trainer",
         "Token rewards of a step to mean 0 and variance 1 over its response tokens, before the "
         "returns."},
        c.whiten_rewards);
  v.key({"advantage_clip", "trainer",
         "Advantages are clamped to plus and minus this, after whitening.", above(0)},
        c.advantage_clip);
  v.key({"reward_clip", "trainer",
         "Trajectory rewards are clamped to plus and minus this, after normalisation.", above(0)},
        c.reward_clip);
  if (v.enter({"reward_normalization", "trainer",
               "How trajectory scores become rewards: the baseline of GRPO; agentic only."},
              c.pipeline == Pipeline::agentic || c.reward_normalization != RewardNormalization{})) {
    RewardNormalization& norm = c.reward_normalization;
    v.key({"grouping", "trainer",
           "What is compared: traj_group_id and state = the trajectories of one map, tags and "
           "inductive = of one environment tag, batch = of the step."},
          norm.grouping);
    v.key({"method", "trainer",
           "identity: none; mean: minus the mean; mean_std and asym_clip: and divided by "
           "the deviation."},
          norm.method);
    v.key({"norm_mean_type", "trainer",
           "Scope of the mean; wins over method. running: all scores of the run so far."},
          norm.norm_mean_type);
    v.key({"norm_std_type", "trainer", "Scope of the deviation; wins over method."},
          norm.norm_std_type);
    v.leave();
  }
}

void describe_kl(Visitor& v, RunConfig& c) {
  v.key({"enable_reference", "trainer", "Builds a reference even when no KL needs it."},
        c.enable_reference);
  v.key({"init_kl_coef", "trainer",
         "Coefficient of the token KL. Above 0 a reference model is built, even if "
         "add_token_level_kl is false (ROLL's rule).",
         at_least(0)},
        c.init_kl_coef);
  v.key({"kl_penalty", "trainer", "Estimator of the token KL."}, c.kl_penalty);
  v.key({"add_token_level_kl", "trainer", "Token rewards lose init_kl_coef times the KL."},
        c.add_token_level_kl);
  v.key({"target_kl", "trainer", "Makes the coefficient adaptive around this KL.", above(0)},
        c.target_kl);
  v.key({"kl_horizon", "trainer", "Trajectories over which the adaptive coefficient moves.",
         at_least(1)},
        c.kl_horizon);
  v.key({"use_kl_loss", "trainer", "Adds kl_loss_coef times the k3 estimate to the loss."},
        c.use_kl_loss);
  v.key({"kl_loss_coef", "trainer", "Coefficient of use_kl_loss.", at_least(0)}, c.kl_loss_coef);
}

void describe_loss(Visitor& v, RunConfig& c) {
  v.key({"pg_clip", "trainer", "Clip range of the probability ratio.", {0, 1, true, false}},
        c.pg_clip);
  v.key({"use_pg_clip_range", "trainer", "Uses pg_clip_low and pg_clip_high in place of pg_clip."},
        c.use_pg_clip_range);
  v.key({"pg_clip_low", "trainer", "Ratio below 1 - this is clipped.", {0, 1, true, false}},
        c.pg_clip_low);
  v.key({"pg_clip_high", "trainer", "Ratio above 1 + this is clipped.", above(0)}, c.pg_clip_high);
  v.key({"dual_clip_loss", "trainer",
         "Bounds the loss of negative advantages at policy_loss.clip_ratio_c times them."},
        c.dual_clip_loss);
  v.key({"loss_agg_mode", "trainer",
         "How token losses become one number; counts are those of the whole optimizer batch."},
        c.loss_agg_mode);
  v.key({"loss_scale_factor", "trainer",
         "The constant that seq-mean-token-constant and seq-mean-token-sum-norm divide "
         "by; ~: sequence_length.",
         above(0)},
        c.loss_scale_factor);
  v.key(
      {"entropy_loss_coef", "trainer", "The loss loses this times the mean entropy.", at_least(0)},
      c.entropy_loss_coef);
  describe_policy_loss(v, c.policy_loss);
  v.key({"ratio_type", "trainer",
         "A ratio per token, or per answer of a turn (segment: the exponential of the mean)."},
        c.ratio_type);
  v.key({"enable_old_logprobs_recompute", "trainer",
         "true: the trainer computes the sampling policy's log-probabilities again before the "
         "update; false: those recorded at generation are taken."},
        c.enable_old_logprobs_recompute);
  v.key({"force_disable_old_logprobs_recompute", "trainer",
         "true: never; one optimizer step per batch then takes its own forward pass, detached "
         "(the ratio is 1), and more steps are refused."},
        c.force_disable_old_logprobs_recompute);
  v.key({"max_grad_norm", "trainer", "Gradients are scaled down to this norm; 0: they are not.",
         at_least(0)},
        c.max_grad_norm);
  v.key({"nonfinite_steps_max", "trainer",
         "Optimizer steps in a row with a NaN or infinite loss or gradient: each is left out, "
         "with an event; one more ends the run.",
         at_least(0)},
        c.nonfinite_steps_max);
}

void describe_schedule(Visitor& v, RunConfig& c) {
  v.key(
      {"async_generation_ratio", "config",
       "Steps that generation may run ahead of the update; 0: they take turns.", between(0, 1024)},
      c.async_generation_ratio);
  v.key({"batch_adjust_mode", "config",
         "What ROLL does with trajectories that fill no optimizer batch. Here none is copied or "
         "dropped: batches are of one size, or one less."},
        c.batch_adjust_mode);
  v.key({"system_envs", "doctor",
         "Environment variables of all roles. One process runs the roles here: set them where "
         "it starts."},
        c.system_envs);
  v.nullable_text({"track_with", "nobody", "ROLL's tracker; TensorBoard files are always written."},
                  c.track_with);
  v.key({"model_update_buffer_size_mb", "plan", "Bucket of a weight transfer [MiB].",
         between(1, 1 << 20)},
        c.model_update_buffer_size_mb);
  v.inert("checkpoint_config", "checkpoints are in the run folder, under output_dir");
}

void describe_inert_run(Visitor& v) {
  v.inert("hydra", "the run folder follows output_dir, exp_name and the run id");
  v.inert(
      "logging_dir render_save_dir rollout_dump_dir profiler_output_dir base_dir dump_run_name "
      "otlp_output_dir",
      "everything a run leaves is in its folder under output_dir");
  v.inert("tracker_kwargs", "metrics.jsonl and TensorBoard files are always written");
  v.inert(
      "rpc_timeout alive_check_interval offload_nccl local_rank model_download_type "
      "partial_gpu_mode is_offload_states transfer_backend "
      "is_offload_optimizer_states_in_train_step enable_async_upload offload_backend world_size",
      "belongs to ROLL's Ray and collective set-up; placement.offload decides what leaves a card");
  v.inert("reward env_monitor max_ckpt_to_keep auto_resume reward_system_config",
          "ROLL's; here: rewards, the dashboard, keep_checkpoints and resume_from_checkpoint");
  v.inert("parse_tool_call_parameter_to_dict skip_mock_system_prompt pipeline_cls",
          "belongs to ROLL's environment managers");
  v.inert("profiler_timeline profiler_memory report_length_and_rewards length_profiler_dir",
          "every run leaves a trace and a report");
  v.inert("val_prompt_length val_sequence_length", "evaluation uses sequence_length");
  v.inert("pg_variant", "ROLL reads it nowhere: actor_train.pg_variant counts");
  v.inert("use_remove_padding use_sequence_packing",
          "ROLL reads it nowhere; batches are always packed");
  v.inert(
      "use_topr_loss use_topr_neg_loss_coef use_policy_loss_type postive_loss_coef "
      "minibatch_data_iter_num balance_length l2 use_reward_scaling use_reward_norm add_len_reward "
      "global_scale_factor global_shift_value dirty_data_mask dataset_filter reward_norm "
      "reward_shift reward_scale positive_loss_coef use_additional_prompts track_name model_name "
      "default_history_length",
      "ROLL accepts it and reads it nowhere");
  v.inert("tis_lower_bound tis_upper_bound cispo_epsilon_low cispo_epsilon_high kimi15_tau",
          "ROLL documents it and drops it: its losses always take 0, 1, 0.1, 0.1 and 0.1");
}

void describe_definitions(Visitor& v) {
  v.tuning(
      "custom_env env_manager_cls all_response_pattern action_pattern think_action_pattern "
      "max_actions_per_traj sokoban_format_penalty frozen_format_penalty webshop_format_penalty "
      "agent_system_template agent_template single_prompt_agent_system_template "
      "single_prompt_agent_template single_prompt_history_template agent_runner_cls deepspeed_zero "
      "deepspeed_zero2 deepspeed_zero2_cpuoffload deepspeed_zero3 deepspeed_zero3_cpuoffload",
      "definitions for ${...}, and nothing in this config names them");
}

}  // namespace

void describe_algorithm(Visitor& v, RunConfig& c) {
  v.key({"dialect", "config",
         "Whose defaults and meanings hold; verl's own keys are read by --dialect verl."},
        c.dialect);
  v.key({"pipeline", "config",
         "What the run does. Missing: agentic with train_env_manager, rlvr with rewards or "
         "files, sft with sft_train, distill with student, dpo and rm by their keys."},
        c.pipeline);
  describe_run(v, c);
  describe_batches(v, c);
  describe_estimator(v, c);
  describe_kl(v, c);
  describe_loss(v, c);
  describe_schedule(v, c);
  describe_rlvr(v, c);
  describe_distillation(v, c);
  describe_preference(v, c);
  describe_inert_run(v);
  describe_definitions(v);
}

void describe(Visitor& v, RunConfig& c) {
  describe_algorithm(v, c);
  describe_roles(v, c);
  describe_environments(v, c);
  describe_tools(v, c);
  describe_runtime(v, c);
}

}  // namespace cohort::config
