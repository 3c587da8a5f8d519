/// verl's keys of actor_rollout_ref.{model, actor, ref} and of the critic.
#include "runtime/config/verl/verl_describe.hpp"

namespace cohort::config {
namespace {

constexpr Range k_open_unit = {0, 1, true, false};  // above 0, at most 1
constexpr std::string_view k_profiler = "every run leaves a trace (trace.json)";
constexpr std::string_view k_profiler_keys =
    "profiler profile_ranks profile_ranks_all profile_discrete";
constexpr std::string_view k_checkpoint =
    "a checkpoint always has weights, optimizer, schedule, RNG and data cursor";

void describe_ppo_micro(Visitor& v, VerlMicro& m) {
  v.key({"ppo_micro_batch_size", "config",
         "Deprecated: trajectories of one pass over all cards; verl divides it.",
         between(1, 1 << 24)},
        m.micro_batch_size);
  v.key({"ppo_micro_batch_size_per_gpu", "trainer, plan",
         "Trajectories of one pass on a card; not beside the deprecated key.", between(1, 1 << 20)},
        m.micro_batch_size_per_gpu);
  v.key({"use_dynamic_bsz", "trainer, plan",
         "Passes are cut by tokens, not by trajectories; ~: false, of a critic as the actor."},
        m.use_dynamic_bsz);
  v.key({"ppo_max_token_len_per_gpu", "trainer, plan",
         "Tokens of a pass on a card under dynamic batches; ~: 16384, of a critic 32768.",
         between(1, 1 << 30)},
        m.max_token_len_per_gpu);
}

void describe_clip(Visitor& v, VerlActor& a) {
  v.key({"clip_ratio", "trainer",
         "Clip range of the ratio, where clip_ratio_low or clip_ratio_high is ~.", k_open_unit},
        a.clip_ratio);
  v.key({"clip_ratio_low", "trainer", "Ratio below 1 - this is clipped.", k_open_unit},
        a.clip_ratio_low);
  v.key({"clip_ratio_high", "trainer", "Ratio above 1 + this is clipped.", above(0)},
        a.clip_ratio_high);
  v.key({"clip_ratio_c", "trainer",
         "Dual clip: the loss of a negative advantage is at most this times it.", above(1)},
        a.clip_ratio_c);
  v.key({"tau_pos", "trainer", "sapo: temperature for positive advantages.", above(0)}, a.tau_pos);
  v.key({"tau_neg", "trainer", "sapo: temperature for negative advantages.", above(0)}, a.tau_neg);
  if (!v.enter({"policy_loss", "trainer", "The policy loss."}, true)) return;
  v.choice({"loss_mode", "trainer", "Which loss."}, a.loss_mode, Dialect::verl, a.loss_mode_name);
  v.key({"clip_cov_ratio", "trainer", "clip_cov: share of tokens.", between(0, 1)},
        a.clip_cov_ratio);
  v.key({"clip_cov_lb", "trainer", "clip_cov: lowest covariance."}, a.clip_cov_lb);
  v.key({"clip_cov_ub", "trainer", "clip_cov: highest covariance."}, a.clip_cov_ub);
  v.key({"kl_cov_ratio", "trainer", "kl_cov: share of tokens.", between(0, 1)}, a.kl_cov_ratio);
  v.key({"ppo_kl_coef", "trainer", "kl_cov: weight of the KL.", at_least(0)}, a.ppo_kl_coef);
  v.key({"dro_beta", "trainer", "dro: weight of (lp - old)^2 / 2; dro needs it above 0.",
         at_least(0)},
        a.dro_beta);
  v.inert("rollout_correction", "verl copies algorithm.rollout_correction there");
  v.leave();
}

void describe_loss(Visitor& v, VerlActor& a) {
  describe_clip(v, a);
  v.key({"use_gpg_loss", "trainer", "true: the older name of policy_loss.loss_mode gpg."},
        a.use_gpg_loss);
  v.key({"loss_agg_mode", "trainer",
         "How token losses become one number; counts are those of the whole mini-batch."},
        a.loss_agg_mode, Dialect::verl);
  v.key({"loss_scale_factor", "trainer",
         "Divisor of seq-mean-token-sum-norm; ~: max_response_length.", above(0)},
        a.loss_scale_factor);
  v.key({"entropy_coeff", "trainer", "The loss loses this times the mean entropy.", at_least(0)},
        a.entropy_coeff);
  v.key({"use_kl_loss", "trainer",
         "Adds kl_loss_coef times the KL to the reference; builds the reference."},
        a.use_kl_loss);
  v.key({"kl_loss_coef", "trainer", "Coefficient of use_kl_loss.", at_least(0)}, a.kl_loss_coef);
  v.choice(
      {"kl_loss_type", "trainer", "Estimator of that KL; with a + its gradient is that of k2."},
      a.kl_loss_type, Dialect::verl, a.kl_loss_name);
  v.key({"grad_clip", "trainer", "Gradients are scaled down to this norm (fsdp).", above(0)},
        a.grad_clip);
  v.inert("calculate_entropy", "the entropy is always measured");
  v.inert("calculate_sum_pi_squared", "only optimal_token_baseline uses it");
}

void describe_actor_batches(Visitor& v, VerlActor& a) {
  v.key({"strategy", "plan", "verl's engine; the built-in one serves every name."}, a.strategy);
  v.key({"ppo_mini_batch_size", "trainer",
         "Prompts of an optimizer step, over all cards; times n, divided by the data-parallel "
         "size.",
         between(1, 1 << 24)},
        a.ppo_mini_batch_size);
  describe_ppo_micro(v, a.micro);
  v.key({"ppo_epochs", "trainer", "Passes over the trajectories of a step.", between(1, 1000)},
        a.ppo_epochs);
  v.key({"shuffle", "trainer", "Mini-batches in a new order every pass."}, a.shuffle);
  v.key({"data_loader_seed", "trainer", "Seed of that order; ~: the run's."}, a.data_loader_seed);
  v.key(
      {"ulysses_sequence_parallel_size", "plan", "Cards that share a sequence.", between(1, 65536)},
      a.ulysses_sequence_parallel_size);
  v.key({"recompute_old_log_prob", "trainer",
         "false (A3 recipe): on-policy steps take the old log-probabilities from the update's "
         "own forward pass."},
        a.recompute_old_log_prob);
}

void describe_actor(Visitor& v, VerlActor& a) {
  if (!v.enter({"actor", "trainer", "The role that trains."}, true)) return;
  describe_actor_batches(v, a);
  describe_loss(v, a);
  describe_verl_optim(v, a.optim);
  describe_verl_fsdp(v, {"fsdp_config", "plan", "The actor's FSDP engine."}, a.fsdp_config);
  describe_verl_megatron(v, a.megatron);
  if (v.enter({"checkpoint", "trainer", "What a checkpoint holds."}, true)) {
    v.text_or_texts({"save_contents", "trainer",
                     "With hf_model each checkpoint also becomes a Hugging Face folder."},
                    a.save_contents);
    v.rest(k_checkpoint, "");
    v.leave();
  }
  v.inert(k_profiler_keys, k_profiler);
  v.inert("use_remove_padding rollout_n use_fused_kernels",
          "follows from actor_rollout_ref.model and rollout");
  v.inert(
      "use_torch_compile freeze_vision_tower use_prefix_grouper router_replay qat veomni "
      "pad_to_length load_weight",
      "the built-in engine has no such part");
  v.inert("entropy_from_logits_with_chunking entropy_from_logits_chunk_size entropy_checkpointing",
          "log-probabilities and entropy are always computed in chunks");
  v.leave();
}

void describe_ref(Visitor& v, VerlRef& r) {
  if (!v.enter({"ref", "reference", "The frozen policy; built only when a KL needs it."}, true))
    return;
  v.key({"strategy", "plan", "verl's engine of the reference; ~: the actor's."}, r.strategy);
  describe_verl_log_prob(v, r.micro);
  v.key({"ulysses_sequence_parallel_size", "plan", "Cards that share a sequence; ~: as the actor.",
         between(1, 65536)},
        r.ulysses_sequence_parallel_size);
  describe_verl_fsdp(v,
                     {"fsdp_config", "plan",
                      "The reference's FSDP engine; its param_offload keeps the weights on the "
                      "host and streams them."},
                     r.fsdp_config);
  describe_verl_megatron(v, r.megatron);
  if (v.enter({"model", "reference", "The reference's own model; ~: the policy's start."},
              !r.path.empty())) {
    v.nullable_text(
        {"path", "reference",
         "Its folder; ~: actor_rollout_ref.model.path. The tokenizer must be the same."},
        r.path);
    v.inert("override_config external_lib trust_remote_code",
            "a folder's config.json and weights alone are read");
    v.leave();
  }
  v.inert(k_profiler_keys, k_profiler);
  v.inert("use_torch_compile router_replay rollout_n pad_to_length load_weight veomni qat",
          "the built-in engine has no such part");
  v.inert("entropy_from_logits_with_chunking entropy_from_logits_chunk_size entropy_checkpointing",
          "log-probabilities are always computed in chunks");
  v.leave();
}

}  // namespace

void describe_verl_actor(Visitor& v, VerlConfig& c) {
  if (!v.enter({"actor_rollout_ref", "trainer, rollout, reference", "The policy's three roles."},
               true))
    return;
  v.key({"hybrid_engine", "placement",
         "true: one pool of cards for all roles, that is placement.mode timeshare; false: the "
         "rollout pool of `rollout.nnodes` x `rollout.n_gpus_per_node` apart from the trainer's."},
        c.hybrid_engine);
  describe_verl_model(v, {"model", "trainer, rollout", "The policy."}, c.model, false);
  describe_actor(v, c.actor);
  describe_ref(v, c.ref);
  describe_verl_rollout(v, c);
  v.inert("nccl_timeout", "collectives have the transport's own deadlines");
  v.leave();
}

void describe_verl_critic(Visitor& v, VerlConfig& c) {
  VerlCritic& k = c.critic;
  if (!v.enter({"critic", "critic", "The value model; built for adv_estimator gae."}, true)) return;
  v.key({"enable", "plan", "Whether it is built; ~: when adv_estimator is gae."}, k.enable);
  v.key({"strategy", "plan", "verl's engine of the critic."}, k.strategy);
  describe_verl_optim(v, k.optim);
  describe_verl_model(v, {"model", "critic", "The critic's weights; path ~: the policy's."},
                      k.model, true);
  describe_verl_fsdp(v, {"fsdp", "plan", "The newer name of model.fsdp_config."}, k.fsdp);
  describe_verl_megatron(v, k.megatron);
  v.key({"ppo_mini_batch_size", "critic", "Prompts of an optimizer step; ~: the actor's.",
         between(1, 1 << 24)},
        k.ppo_mini_batch_size);
  describe_ppo_micro(v, k.micro);
  v.key({"forward_micro_batch_size", "config", "Deprecated: over all cards.", between(1, 1 << 24)},
        k.forward.micro_batch_size);
  v.key({"forward_micro_batch_size_per_gpu", "critic",
         "Trajectories of a value pass on a card; ~: as in training.", between(1, 1 << 20)},
        k.forward.micro_batch_size_per_gpu);
  v.key({"forward_max_token_len_per_gpu", "critic", "Tokens of a value pass under dynamic batches.",
         between(1, 1 << 30)},
        k.forward.max_token_len_per_gpu);
  v.key({"ppo_epochs", "critic", "Passes of a step; ~: the actor's.", between(1, 1000)},
        k.ppo_epochs);
  v.key({"cliprange_value", "critic", "Values move at most this far from the old ones.", above(0)},
        k.cliprange_value);
  v.key({"grad_clip", "critic", "Gradients are scaled down to this norm.", above(0)}, k.grad_clip);
  v.key(
      {"ulysses_sequence_parallel_size", "plan", "Cards that share a sequence.", between(1, 65536)},
      k.ulysses_sequence_parallel_size);
  v.inert("rollout_n shuffle data_loader_seed loss_agg_mode loss_scale_factor", "as the actor");
  v.inert("checkpoint", k_checkpoint);
  v.inert(k_profiler_keys, k_profiler);
  v.inert("nccl_timeout load_weight veomni", "the built-in engine has no such part");
  v.leave();
}

}  // namespace cohort::config
