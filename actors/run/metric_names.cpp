#include "actors/run/metric_names.hpp"

#include <algorithm>
#include <array>

#include "runtime/config/train_groups.hpp"

namespace cohort::actors {
namespace {

using config::Dialect;
using config::RunConfig;

enum Only : uint32_t {
  k_agentic = 1,
  k_rows = 2,
  k_one_turn = 4,
  k_unfiltered = 8,
  k_turns_taken = 16,
  k_no_reference = 32,
  k_update_alone = 64,
  k_ppo_clip = 128,
  k_kl_in_reward = 256,
  k_sft = 512,
};

bool is_agentic(const RunConfig& c) { return c.pipeline == config::Pipeline::agentic; }
bool is_rlvr(const RunConfig& c) { return c.pipeline == config::Pipeline::rlvr; }
bool has_one_turn(const RunConfig& c) { return is_rlvr(c) && c.tools.empty(); }
bool is_unfiltered(const RunConfig& c) {
  return !config::is_supervised(c.pipeline) && !config::has_group_filter(c);
}
bool takes_turns(const RunConfig& c) { return c.derived.steps_ahead == 0; }
bool has_no_reference(const RunConfig& c) { return !c.derived.is_reference_needed; }
bool updates_alone(const RunConfig& c) {
  const bool has_adapter_reference =
      c.derived.is_reference_needed && c.reference.device_mapping.empty();
  return c.derived.old_log_probs != config::OldLogProbs::recomputed &&
         c.derived.critic.optimizer_batch == 0 && !has_adapter_reference;
}
bool clips_as_ppo(const RunConfig& c) {
  const auto kind = c.actor_train.pg_variant.value_or(catalog::PolicyLossKind::ppo);
  return kind == catalog::PolicyLossKind::ppo && !c.policy_loss.ratio_cap;
}
bool has_kl_in_reward(const RunConfig& c) { return c.add_token_level_kl; }
bool is_sft(const RunConfig& c) { return c.pipeline == config::Pipeline::sft; }

constexpr std::array k_requirements = {
    MetricRequirement{k_agentic, "pipeline agentic", is_agentic},
    MetricRequirement{k_rows, "pipeline rlvr", is_rlvr},
    MetricRequirement{k_sft, "pipeline sft", is_sft},
    MetricRequirement{k_one_turn, "answers of one turn (rlvr without tools)", has_one_turn},
    MetricRequirement{k_unfiltered, "no dynamic sampling", is_unfiltered},
    MetricRequirement{k_turns_taken, "`async.mode: sync`", takes_turns},
    MetricRequirement{k_no_reference, "no reference", has_no_reference},
    MetricRequirement{k_update_alone,
                      "the update makes no other pass (old log-probs, critic, adapter's reference)",
                      updates_alone},
    MetricRequirement{k_ppo_clip, "policy loss ppo without a ratio cap", clips_as_ppo},
    MetricRequirement{k_kl_in_reward, "KL in the reward", has_kl_in_reward},
};

constexpr std::array k_names = {
    MetricName{Dialect::roll, "critic/score/mean", "rollout/score/mean", k_unfiltered},
    MetricName{Dialect::roll, "critic/score/max", "rollout/score/max", k_unfiltered},
    MetricName{Dialect::roll, "critic/score/min", "rollout/score/min", k_unfiltered},
    MetricName{Dialect::roll, "tokens/response_length/mean", "rollout/response_length/mean",
               k_agentic | k_unfiltered},
    MetricName{Dialect::roll, "tokens/response_length/max", "rollout/response_length/max",
               k_agentic | k_unfiltered},
    MetricName{Dialect::roll, "tokens/response_length/min", "rollout/response_length/min",
               k_agentic | k_unfiltered},
    MetricName{Dialect::roll, "token/response_length/mean", "rollout/response_length/mean",
               k_one_turn | k_unfiltered},
    MetricName{Dialect::roll, "token/response_length/max", "rollout/response_length/max",
               k_one_turn | k_unfiltered},
    MetricName{Dialect::roll, "token/response_length/min", "rollout/response_length/min",
               k_one_turn | k_unfiltered},
    MetricName{Dialect::roll, "token/prompt_length/mean", "rollout/prompt_length/mean",
               k_one_turn | k_unfiltered},
    MetricName{Dialect::roll, "token/prompt_length/max", "rollout/prompt_length/max",
               k_one_turn | k_unfiltered},
    MetricName{Dialect::roll, "token/prompt_length/min", "rollout/prompt_length/min",
               k_one_turn | k_unfiltered},
    MetricName{Dialect::roll, "system/samples", "trajectories", k_agentic | k_unfiltered},
    MetricName{Dialect::roll, "time/step_rollout", "time/generate_s",
               k_agentic | k_turns_taken | k_no_reference},
    MetricName{Dialect::roll, "time/step_generate", "time/generate_s",
               k_rows | k_turns_taken | k_no_reference},
    MetricName{Dialect::roll, "time/step_train", "time/update_s", k_update_alone},
    MetricName{Dialect::roll, "time/step_total", "time/step_s", k_agentic | k_turns_taken},
    MetricName{Dialect::verl, "training/global_step", "step"},
    MetricName{Dialect::verl, "critic/score/mean", "rollout/score/mean", k_unfiltered},
    MetricName{Dialect::verl, "critic/score/max", "rollout/score/max", k_unfiltered},
    MetricName{Dialect::verl, "critic/score/min", "rollout/score/min", k_unfiltered},
    MetricName{Dialect::verl, "response_length/mean", "rollout/response_length/mean",
               k_one_turn | k_unfiltered},
    MetricName{Dialect::verl, "response_length/max", "rollout/response_length/max",
               k_one_turn | k_unfiltered},
    MetricName{Dialect::verl, "response_length/min", "rollout/response_length/min",
               k_one_turn | k_unfiltered},
    MetricName{Dialect::verl, "prompt_length/mean", "rollout/prompt_length/mean",
               k_one_turn | k_unfiltered},
    MetricName{Dialect::verl, "prompt_length/max", "rollout/prompt_length/max",
               k_one_turn | k_unfiltered},
    MetricName{Dialect::verl, "prompt_length/min", "rollout/prompt_length/min",
               k_one_turn | k_unfiltered},
    MetricName{Dialect::verl, "actor/pg_clipfrac", "actor/clipfrac", k_ppo_clip},
    MetricName{Dialect::verl, "actor/reward_kl_penalty", "critic/kl", k_kl_in_reward},
    MetricName{Dialect::verl, "actor/reward_kl_penalty_coeff", "critic/kl_coef", k_kl_in_reward},
    MetricName{Dialect::verl, "perf/total_num_tokens", "tokens", k_unfiltered},
    MetricName{Dialect::verl, "timing_s/old_log_prob", "time/old_log_probs_s"},
    MetricName{Dialect::verl, "timing_s/values", "time/values_s"},
    MetricName{Dialect::verl, "timing_s/update_actor", "time/update_s", k_update_alone},
    MetricName{Dialect::verl, "timing_s/update_critic", "time/critic_update_s"},
    MetricName{Dialect::verl, "timing_s/update_weights", "time/publish_s", k_turns_taken},
    MetricName{Dialect::verl, "train/loss", "loss", k_sft},
    MetricName{Dialect::verl, "train/grad_norm", "actor/grad_norm", k_sft},
};

}  // namespace

std::span<const MetricName> metric_names() { return k_names; }
std::span<const MetricRequirement> metric_requirements() { return k_requirements; }

std::vector<MetricName> metric_names_of(const RunConfig& config) {
  const std::string& asked = config.telemetry.metric_names;
  std::vector<MetricName> names;
  for (const MetricName& name : metric_names()) {
    const bool is_wanted =
        asked == "auto" ? name.dialect == config.dialect : asked == config::to_string(name.dialect);
    const bool is_met = std::ranges::all_of(metric_requirements(), [&](const auto& requirement) {
      return (name.only_if & requirement.bit) == 0 || requirement.is_met(config);
    });
    if (is_wanted && is_met) names.push_back(name);
  }
  return names;
}

void add_names(std::span<const MetricName> names, observe::MetricRow& row) {
  for (const MetricName& name : names) {
    if (row.number(name.theirs)) continue;
    if (name.ours == "step")
      row.set(name.theirs, static_cast<double>(row.step()));
    else if (const std::optional<double> value = row.number(name.ours))
      row.set(name.theirs, *value);
  }
}

}  // namespace cohort::actors
