/// verl's keys of algorithm, trainer and what stands beside them; Cohort's own keys.
#include "runtime/config/roll/describe.hpp"
#include "runtime/config/verl/verl_describe.hpp"

namespace cohort::config {
namespace {

constexpr Range k_nodes = between(1, 65536);

void describe_correction(Visitor& v, VerlRolloutCorrection& r) {
  if (!v.enter({"rollout_correction", "trainer",
                "Weights and rejection against the gap between engine and trainer."},
               true))
    return;
  v.key({"rollout_is", "trainer", "Importance weights per token or sequence; ~: none."},
        r.rollout_is);
  v.loose_text(
      {"rollout_is_threshold", "trainer", "Their upper bound; \"lo_hi\": 0 outside (icepop)."},
      r.rollout_is_threshold);
  v.key({"rollout_is_batch_normalize", "trainer", "Weights are scaled to mean 1."},
        r.rollout_is_batch_normalize);
  v.loose_text({"rollout_rs", "trainer", "Rejections, by commas; ~: none."}, r.rollout_rs);
  v.loose_text({"rollout_rs_threshold", "trainer", "Their thresholds, \"lo_hi\" or a number."},
               r.rollout_rs_threshold);
  v.key({"bypass_mode", "trainer", "The engine's log-probabilities are the old ones."},
        r.bypass_mode);
  v.key({"loss_type", "trainer", "ppo_clip or reinforce, in bypass_mode."}, r.loss_type);
  v.leave();
}

void describe_algorithm_kl(Visitor& v, VerlAlgorithm& a) {
  v.key(
      {"use_kl_in_reward", "trainer", "Token rewards lose kl_coef times the KL to the reference."},
      a.use_kl_in_reward);
  v.choice({"kl_penalty", "trainer", "Estimator of that KL."}, a.kl_penalty, Dialect::verl,
           a.kl_penalty_name);
  if (!v.enter({"kl_ctrl", "trainer", "Its coefficient."}, true)) return;
  v.key({"type", "trainer", "fixed, or adaptive around target_kl."}, a.kl_type);
  v.key(
      {"kl_coef", "trainer", "Coefficient; without use_kl_in_reward it does nothing.", at_least(0)},
      a.kl_coef);
  v.key(
      {"horizon", "trainer", "Trajectories over which an adaptive coefficient moves.", at_least(1)},
      a.kl_horizon);
  v.key({"target_kl", "trainer", "KL that an adaptive coefficient aims at.", above(0)},
        a.target_kl);
  v.leave();
}

void describe_verl_algorithm(Visitor& v, VerlAlgorithm& a) {
  if (!v.enter({"algorithm", "trainer", "Advantages and rewards."}, true)) return;
  v.choice({"adv_estimator", "trainer", "Advantage estimator; gae needs a critic."},
           a.adv_estimator, Dialect::verl, a.estimator_name);
  v.key({"gamma", "trainer", "Discount per token.", between(0, 1)}, a.gamma);
  v.key({"lam", "trainer", "Lambda of gae.", between(0, 1)}, a.lam);
  v.key({"norm_adv_by_std_in_grpo", "trainer",
         "grpo: advantages are divided by the group's deviation; false: Dr.GRPO."},
        a.norm_adv_by_std_in_grpo);
  v.key({"gdpo_reward_keys", "trainer", "gdpo: the numbers of a score that are rewards."},
        a.gdpo_reward_keys);
  v.key({"gdpo_reward_weights", "trainer", "gdpo: their weights, one per key; []: 1 each."},
        a.gdpo_reward_weights);
  describe_algorithm_kl(v, a);
  v.key({"use_pf_ppo", "trainer", "Trajectories are drawn again by their score (PF-PPO)."},
        a.use_pf_ppo);
  v.inert("pf_ppo", "PF-PPO is not built in");
  if (v.enter({"filter_groups", "driver", "Groups without spread are replaced (DAPO)."}, true)) {
    v.key({"enable", "driver", "Whether they are."}, a.filter_groups.enable);
    v.key({"metric", "driver", "Whose spread counts."}, a.filter_groups.metric);
    v.key({"max_num_gen_batches", "driver", "Generations of a step; 0 or less: no bound."},
          a.filter_groups.max_num_gen_batches);
    v.inert("max_inflight_gen_batches", "generations of a step follow each other");
    v.leave();
  }
  describe_correction(v, a.rollout_correction);
  v.leave();
}

void describe_cadence(Visitor& v, VerlTrainer& t) {
  v.key({"total_epochs", "driver", "Passes over the training rows.", between(1, 1'000'000)},
        t.total_epochs);
  v.key({"total_training_steps", "driver", "Steps of the run; wins over total_epochs.",
         between(1, 10'000'000)},
        t.total_training_steps);
  v.key({"save_freq", "driver", "A checkpoint every so many steps; -1: never, not even last.",
         at_least(-1)},
        t.save_freq);
  v.key({"test_freq", "driver", "An evaluation every so many steps and after the last; -1: never.",
         at_least(-1)},
        t.test_freq);
  v.key({"val_before_train", "driver", "An evaluation before the first step."}, t.val_before_train);
  v.key({"val_only", "driver", "That evaluation and nothing else."}, t.val_only);
  v.key({"critic_warmup", "trainer", "Steps that update the critic alone.", at_least(0)},
        t.critic_warmup);
  v.key({"resume_mode", "driver", "auto: from the newest checkpoint if there is one."},
        t.resume_mode);
  v.nullable_text({"resume_from_path", "driver", "Checkpoint of resume_mode resume_path."},
                  t.resume_from_path);
}

void describe_trainer_section(Visitor& v, VerlTrainer& t) {
  if (!v.enter({"trainer", "driver", "The run."}, true)) return;
  describe_cadence(v, t);
  v.key({"project_name", "run folder", "First piece of the run folder."}, t.project_name);
  v.key({"experiment_name", "run folder", "Second piece of it."}, t.experiment_name);
  v.text_or_texts(
      {"logger", "config",
       "verl's trackers. Metrics always go to the console, metrics.jsonl and TensorBoard."},
      t.logger);
  v.key({"nnodes", "placement", "Nodes.", k_nodes}, t.nnodes);
  v.key({"n_gpus_per_node", "placement", "Cards of a node.", between(1, 4096)}, t.n_gpus_per_node);
  v.nullable_text(
      {"default_local_dir", "run folder", "Where run folders go; ~: checkpoints/<project_name>."},
      t.default_local_dir);
  v.key({"max_actor_ckpt_to_keep", "driver", "Checkpoints kept; ~: all.", at_least(1)},
        t.max_actor_ckpt_to_keep);
  v.key(
      {"device", "placement", "What a card is. verl takes npu by itself where torch_npu is there."},
      t.device);
  v.inert("max_critic_ckpt_to_keep", "critic and policy are in one checkpoint");
  v.inert("balance_batch", "trajectories are packed by tokens on every card");
  v.inert("log_val_generations rollout_data_dir validation_data_dir",
          "every trajectory is in the stream: `traj export` writes it as jsonl");
  v.inert("esi_redundant_time default_hdfs_dir del_local_ckpt_after_load",
          "belongs to verl's own cluster storage");
  v.inert("ray_wait_register_center_timeout use_legacy_worker_impl use_v1 v1",
          "belongs to verl's Ray workers");
  v.inert("profile_steps controller_nsight_options worker_nsight_options npu_profile",
          "every run leaves a trace (trace.json)");
  v.leave();
}

void describe_disaggregated(Visitor& v, VerlConfig& c) {
  if (v.enter({"rollout", "placement", "The rollout pool of verl's disaggregated recipes."},
              true)) {
    v.key({"nnodes", "placement", "Its nodes.", between(0, 65536)}, c.rollout_pool.nnodes);
    v.key({"n_gpus_per_node", "placement", "Cards per node of it.", between(0, 4096)},
          c.rollout_pool.n_gpus_per_node);
    v.key({"total_rollout_steps", "driver", "Trajectories groups of a run.", at_least(1)},
          c.rollout_pool.total_rollout_steps);
    v.inert("test_freq total_epochs n",
            "use trainer.test_freq, trainer.total_epochs and actor_rollout_ref.rollout.n");
    v.leave();
  }
  if (v.enter({"async_training", "driver", "Training beside generation (fully_async)."},
              c.async_training.is_configured)) {
    c.async_training.is_configured = true;
    v.key({"staleness_threshold", "driver", "Share of samples that may be of old weights.",
           at_least(0)},
          c.async_training.staleness_threshold);
    v.key({"trigger_parameter_sync_step", "driver", "Steps between weight pushes.", at_least(1)},
          c.async_training.trigger_parameter_sync_step);
    v.key({"require_batches", "driver", "Mini-batches that a step waits for.", at_least(1)},
          c.async_training.require_batches);
    v.key({"partial_rollout", "driver", "A push interrupts generation."},
          c.async_training.partial_rollout);
    v.inert("use_rollout_log_probs compute_prox_log_prob checkpoint_engine",
            "behaviour log-probabilities are always kept");
    v.leave();
  }
}

void describe_cohort(Visitor& v, VerlConfig& c) {
  v.only({"dialect", "config", "this file has verl's keys"}, "verl");
  v.nullable_text(
      {"output_dir", "run folder", "Ours: where run folders go; ~: trainer.default_local_dir."},
      c.output_dir);
  v.key({"seed", "everything", "Ours: fixes initialisation, sampling and order.", at_least(0)},
        c.cohort.seed);
  v.key({"num_gpus_per_node", "placement",
         "Ours: cards of a host, where the rollout pool shares hosts with the trainer.",
         between(1, 4096)},
        c.num_gpus_per_node);
  describe_runtime(v, c.cohort);
  describe_tools(v, c.cohort);
}

}  // namespace

void describe_verl_trainer(Visitor& v, VerlConfig& c) {
  describe_verl_algorithm(v, c.algorithm);
  describe_trainer_section(v, c.trainer);
  describe_disaggregated(v, c);
  v.inert("hydra ray_kwargs ray_init transfer_queue skip",
          "belongs to verl's Hydra and Ray set-up");
  v.inert("global_profiler", "every run leaves a trace (trace.json)");
  describe_verl_distillation(v, c.distillation);
  v.inert("model_engine", "not part of this pipeline");
  describe_cohort(v, c);
}

void describe_verl(Visitor& v, VerlConfig& c) {
  describe_verl_data(v, c);
  describe_verl_actor(v, c);
  describe_verl_critic(v, c);
  describe_verl_reward(v, c);
  describe_verl_trainer(v, c);
}

}  // namespace cohort::config
