/// What a verl command asks for and this version plans but does not run, by verl's names.
#include <fmt/format.h>

#include "runtime/config/verl/verl_check.hpp"

namespace cohort::config {
namespace {

void warn_engines(const VerlConfig& c, Findings& f) {
  f.warn("dialect", "verl configs are planned, not run");
  f.warn("actor_rollout_ref.actor.strategy",
         fmt::format("{}: not built in; the built-in engine is used", to_string(c.actor.strategy)));
  if (c.rollout.name)
    f.warn(
        "actor_rollout_ref.rollout.name",
        fmt::format("{}: not built in; the built-in engine is used", to_string(*c.rollout.name)));
}

}  // namespace

void check_verl_built(const VerlConfig& c, Findings& f) {
  warn_engines(c, f);
  auto warn_if = [&](bool is_asked, const char* key, std::string_view what) {
    if (is_asked) f.warn(key, fmt::format("{} is planned, not run", what));
  };
  const VerlAlgorithm& a = c.algorithm;
  warn_if(!catalog::entry(a.adv_estimator).is_built, "algorithm.adv_estimator", a.estimator_name);
  warn_if(!catalog::entry(c.actor.loss_mode).is_built,
          "actor_rollout_ref.actor.policy_loss.loss_mode", c.actor.loss_mode_name);
  warn_if(a.use_pf_ppo, "algorithm.use_pf_ppo", "PF-PPO");
  warn_if(a.filter_groups.enable, "algorithm.filter_groups.enable", "dynamic sampling");
  warn_if(a.rollout_correction.rollout_is.has_value(), "algorithm.rollout_correction.rollout_is",
          "rollout correction");
  warn_if(!a.rollout_correction.rollout_rs.empty(), "algorithm.rollout_correction.rollout_rs",
          "rejection of tokens or sequences");
  warn_if(a.rollout_correction.bypass_mode, "algorithm.rollout_correction.bypass_mode",
          "bypass mode");
  warn_if(c.model.lora.rank > 0, "actor_rollout_ref.model.lora_rank", "LoRA");
  warn_if(c.rollout.multi_turn.enable, "actor_rollout_ref.rollout.multi_turn.enable",
          "a conversation with tools");
  warn_if(c.reward.is_model_enabled.value_or(false), "reward_model.enable", "a reward model");
  warn_if(c.async_training.is_configured, "async_training", "training beside generation");
}

}  // namespace cohort::config
