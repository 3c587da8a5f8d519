/// What a verl command asks for and this version plans but does not run, under verl's names. A key
/// is in this list, or a run does with it what verl does, or it is noted as without effect.
#include <fmt/format.h>

#include "runtime/config/roll/not_built.hpp"
#include "runtime/config/verl/verl_check.hpp"

namespace cohort::config {
namespace {

class List {
 public:
  explicit List(Findings& findings) : findings_(findings) {}

  void add_if(bool is_asked, const std::string& key, const std::string& text) {
    if (is_asked) findings_.warn(key, "{}{}", k_not_run, text);
  }

 private:
  Findings& findings_;
};

/// verl's names of the rows that are built, "grpo, grpo_vectorized or rloo".
std::string built_in_verl(std::span<const catalog::Entry> rows) {
  std::vector<std::string_view> names;
  for (const catalog::Entry& row : rows)
    if (row.is_built)
      for (std::string_view name : catalog::words(row.verl)) names.push_back(name);
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  return text;
}

void add_algorithm(const VerlConfig& c, const VerlNumbers& n, List& list) {
  const VerlAlgorithm& a = c.algorithm;
  const catalog::Entry& estimator = catalog::entry(a.adv_estimator);
  list.add_if(!estimator.is_built, "algorithm.adv_estimator",
              fmt::format("{} is not built in; use {}", a.estimator_name,
                          built_in_verl(catalog::entries(a.adv_estimator))));
  list.add_if(estimator.is_built && n.has_critic && !estimator.has(catalog::need::critic),
              "critic.enable",
              fmt::format("true is not built in beside adv_estimator {}, which never reads values; "
                          "use False",
                          a.estimator_name));
  list.add_if(a.use_pf_ppo, "algorithm.use_pf_ppo", "PF-PPO is not built in; use False");
}

void add_loss(const VerlConfig& c, List& list) {
  const VerlActor& a = c.actor;
  const std::string actor = "actor_rollout_ref.actor.";
  list.add_if(!catalog::entry(a.loss_mode).is_built, actor + "policy_loss.loss_mode",
              fmt::format("{} is not built in; use {}", a.loss_mode_name,
                          built_in_verl(catalog::entries(a.loss_mode))));
  list.add_if(a.shuffle, actor + "shuffle",
              "true is not built in: mini-batches stand in the order of the prompts; use False");
}

void add_optimizer(const std::string& role, const VerlOptim& o, List& list) {
  const std::string optim = role + ".optim.";
  const bool is_cosine = o.warmup_style.value_or(o.lr_scheduler_type) == VerlScheduler::cosine;
  list.add_if(is_cosine, optim + (o.warmup_style ? "warmup_style" : "lr_scheduler_type"),
              "cosine in RL steps is not built in; use constant");
}

void add_engine(const std::string& role, VerlStrategy strategy, const VerlMegatron& m, List& list) {
  const bool is_megatron = strategy == VerlStrategy::megatron;
  list.add_if(is_megatron && role == "critic" && m.expert_model_parallel_size > 1,
              role + ".megatron.expert_model_parallel_size",
              fmt::format("{} is not built in for a critic; use 1 (it is the actor's unless it is "
                          "given)",
                          m.expert_model_parallel_size));
}

/// Losses that Megatron adds to the policy's.
void add_router_losses(const std::string& role, const VerlMegatron& m, List& list) {
  const std::string switches = role + ".megatron.override_transformer_config.";
  for (const char* name : {"moe_aux_loss_coeff", "moe_z_loss_coeff"}) {
    const Node* value = m.override_transformer_config.at_path(name);
    list.add_if(value != nullptr && value->kind == NodeKind::scalar && as_double(*value) != 0.0,
                switches + name, "a loss on the router of experts is not built in; use 0");
  }
}

void add_roles(const VerlConfig& c, const VerlNumbers& n, List& list) {
  const VerlActor& a = c.actor;
  const bool is_megatron = a.strategy == VerlStrategy::megatron;
  add_engine("actor_rollout_ref.actor", a.strategy, a.megatron, list);
  if (is_megatron) add_router_losses("actor_rollout_ref.actor", a.megatron, list);
  if (n.is_reference_needed) {
    const VerlStrategy strategy = c.ref.strategy.value_or(a.strategy);
    add_engine("actor_rollout_ref.ref", strategy, c.ref.megatron, list);
  }
  list.add_if(!c.model.tokenizer_path.empty() && c.model.tokenizer_path != c.model.path,
              "actor_rollout_ref.model.tokenizer_path",
              "is not built in: the tokenizer is that of model.path; use ~");
}

void add_critic(const VerlConfig& c, const VerlNumbers& n, List& list) {
  const VerlCritic& k = c.critic;
  add_engine("critic", k.strategy, k.megatron, list);
  add_optimizer("critic", k.optim, list);
  const bool is_recorded = c.algorithm.rollout_correction.bypass_mode ||
                           (n.optimizer_steps_per_step == 1 && !c.actor.recompute_old_log_prob);
  list.add_if(c.algorithm.use_kl_in_reward && !is_recorded, "algorithm.use_kl_in_reward",
              "true is not built in beside a critic where the policy's update computes the old "
              "log-probabilities; use rollout_correction.bypass_mode=True, or use_kl_loss");
  list.add_if(k.model.lora.is_asked(), "critic.model.lora_rank",
              "is not built in: every weight of the critic trains; use 0");
}

void add_lora(const VerlConfig& c, const VerlNumbers& n, List& list) {
  const VerlLora& lora = c.model.lora;
  if (!lora.is_asked()) return;
  const std::string model = "actor_rollout_ref.model.";
  list.add_if(n.is_reference_needed && !lora.adapter_path.empty() && c.ref.path.empty(),
              model + "lora_adapter_path",
              "a run that starts from an adapter has no reference: with its adapter off the model "
              "is not the start; set actor.use_kl_loss=False, or name a folder in ref.model.path");
}

void add_rollout(const VerlRollout& r, List& list) {
  const std::string rollout = "actor_rollout_ref.rollout.";
  const VerlSampling& s = r.sampling;
  list.add_if(!s.do_sample, rollout + "do_sample",
              "false is not built in: equal answers have no advantage; use True");
  list.add_if(s.do_sample && s.temperature != 1, rollout + "temperature",
              fmt::format("{} is not built in: log-probabilities are those of the logits as they "
                          "are; use 1.0",
                          s.temperature));
  list.add_if(r.multi_turn.enable && !r.multi_turn.interaction_config_path.empty(),
              rollout + "multi_turn.interaction_config_path",
              "an interaction of verl's package is not built in; use ~, and an environment plugin "
              "(docs/plugins.md)");
}

void add_data(const VerlData& d, List& list) {
  list.add_if(d.train_max_samples > 0, "data.train_max_samples",
              "is not built in: all rows are used; use -1 and a shorter file");
}

void add_reward(const VerlReward& r, List& list) {
  const bool is_known =
      r.manager.empty() || r.manager == "naive" || r.manager == "dapo" || r.manager == "batch";
  list.add_if(!is_known, "reward_model.reward_manager",
              fmt::format("{} is not built in; use naive, dapo or batch", r.manager));
  list.add_if(r.manager == "batch" && r.function_path.empty(), "reward_model.reward_manager",
              "batch scores by a function of the user's; use naive, or give "
              "custom_reward_function.path");
  list.add_if(r.overlong_buffer.enable && r.manager != "dapo",
              "reward_model.reward_kwargs.overlong_buffer_cfg.enable",
              "only reward manager dapo reads it; use reward_manager dapo, or False");
  list.add_if(r.is_model_enabled.value_or(false), "reward_model.enable",
              "a model that scores beside verl's roles on every card is not built in; use False, "
              "or a ROLL config with a reward of type reward_model (docs/rewards.md)");
}

void add_trainer(const VerlConfig& c, const VerlNumbers& n, List& list) {
  list.add_if(c.trainer.val_only, "trainer.val_only", "is not built in; use False");
  list.add_if(n.total_steps == 0, "trainer.total_training_steps",
              "the number of steps is not known; give it, or train_files that are here");
  list.add_if(c.async_training.is_configured && !c.async_training.partial_rollout,
              "async_training.partial_rollout",
              "False waits for what is under way before each push: not built in; use True");
}

}  // namespace

void check_verl_run(const VerlConfig& c, Findings& f, const VerlNumbers& n) {
  if (!f.problems.empty()) return;
  List list(f);
  add_data(c.data, list);
  add_roles(c, n, list);
  add_lora(c, n, list);
  add_loss(c, list);
  add_optimizer("actor_rollout_ref.actor", c.actor.optim, list);
  if (n.has_critic) add_critic(c, n, list);
  add_rollout(c.rollout, list);
  add_reward(c.reward, list);
  add_algorithm(c, n, list);
  add_trainer(c, n, list);
}

}  // namespace cohort::config
