#include "runtime/config/check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace cohort::config {
namespace {

/// True if none of the keys has a problem already.
bool usable(const Findings& findings, std::initializer_list<const char*> paths) {
  return std::none_of(paths.begin(), paths.end(),
                      [&](const char* path) { return findings.broken.contains(path); });
}

/// "nearest that work: 256, 512" for a value that should be a multiple of `unit`.
std::string nearest_multiples(int64_t value, int64_t unit) {
  int64_t below = value / unit * unit;
  return below > 0 ? fmt::format("nearest that work: {}, {}", below, below + unit)
                   : fmt::format("the smallest that works: {}", unit);
}

void complete_lengths(RunConfig& c, Findings& f) {
  if (!usable(f, {"sequence_length", "response_length", "prompt_length"})) return;
  if (c.sequence_length == 0 && c.response_length == 0)
    return f.problem("sequence_length",
                     "missing: give sequence_length, or response_length (it adds "
                     "prompt_length)");
  if (c.sequence_length == 0)
    c.sequence_length = c.prompt_length + c.response_length;
  else if (c.response_length > 0)
    f.warn("response_length",
           fmt::format("has no effect beside sequence_length {} (ROLL's rule)", c.sequence_length));
  c.response_length = 0;
}

void check_rollout_batch(RunConfig& c, Findings& f) {
  if (!usable(f, {"rollout_batch_size", "train_env_manager.num_env_groups",
                  "train_env_manager.group_size"}))
    return;
  const EnvManagerConfig& train = c.train_env_manager;
  int64_t environments = train.num_env_groups * train.group_size;
  if (c.rollout_batch_size < 0) c.rollout_batch_size = environments;
  if (c.rollout_batch_size == 0 || c.rollout_batch_size % train.group_size != 0)
    return f.problem("rollout_batch_size",
                     fmt::format("{} is not a multiple of train_env_manager.group_size {}; {}",
                                 c.rollout_batch_size, train.group_size,
                                 nearest_multiples(c.rollout_batch_size, train.group_size)));
  c.derived.groups_per_step = c.rollout_batch_size / train.group_size;
  if (c.rollout_batch_size < environments)
    f.warn("rollout_batch_size",
           fmt::format(
               "a step takes {} trajectories, so {} of the {} environments (num_env_groups {} x "
               "group_size {}) are never started",
               c.rollout_batch_size, environments - c.rollout_batch_size, environments,
               train.num_env_groups, train.group_size));
}

void check_val_batch(RunConfig& c, Findings& f) {
  if (c.eval_steps <= 0 || !usable(f, {"val_batch_size", "val_env_manager.num_env_groups",
                                       "val_env_manager.group_size"}))
    return;
  const EnvManagerConfig& val = c.val_env_manager;
  int64_t environments = val.num_env_groups * val.group_size;
  if (c.val_batch_size < 0) c.val_batch_size = environments;
  if (c.val_batch_size == 0 || c.val_batch_size % environments != 0)
    return f.problem(
        "val_batch_size",
        fmt::format("{} is not a multiple of {} = val_env_manager.num_env_groups {} x group_size "
                    "{}; {}",
                    c.val_batch_size, environments, val.num_env_groups, val.group_size,
                    nearest_multiples(c.val_batch_size, environments)));
  c.derived.val_groups = c.val_batch_size / val.group_size;
}

/// roll.md 2.6: optimizer steps per step = ppo_epochs · N / (P·A·D).
void check_optimizer_batch(RunConfig& c, Findings& f) {
  const TrainingArgs& t = c.actor_train.training_args;
  if (!usable(f, {"rollout_batch_size", "ppo_epochs", "max_steps", "actor_train",
                  "actor_train.device_mapping", "actor_train.training_args",
                  "actor_train.training_args.per_device_train_batch_size",
                  "actor_train.training_args.gradient_accumulation_steps"}) ||
      c.derived.groups_per_step == 0 || c.actor_train.device_mapping.empty())
    return;
  auto cards = static_cast<int64_t>(c.actor_train.device_mapping.size());
  int64_t batch = t.per_device_train_batch_size * t.gradient_accumulation_steps * cards;
  c.derived.train_cards = cards;
  c.derived.optimizer_batch = batch;
  if (c.rollout_batch_size % batch != 0)
    return f.problem("rollout_batch_size",
                     fmt::format("{} is not a multiple of {} = per_device_train_batch_size {} x "
                                 "gradient_accumulation_steps {} x {} train card{}; {}",
                                 c.rollout_batch_size, batch, t.per_device_train_batch_size,
                                 t.gradient_accumulation_steps, cards, cards == 1 ? "" : "s",
                                 nearest_multiples(c.rollout_batch_size, batch)));
  c.derived.optimizer_steps_per_step = c.ppo_epochs * (c.rollout_batch_size / batch);
  c.derived.total_optimizer_steps = c.max_steps * c.derived.optimizer_steps_per_step;
  auto total = static_cast<double>(c.derived.total_optimizer_steps);
  c.derived.warmup_steps =
      t.warmup_steps > 0 ? t.warmup_steps : static_cast<int64_t>(std::ceil(total * t.warmup_ratio));
  if (c.derived.warmup_steps > c.derived.total_optimizer_steps)
    f.warn("actor_train.training_args.warmup_steps",
           fmt::format("{} is more than the run's {} optimizer steps: the learning rate never "
                       "reaches its peak",
                       c.derived.warmup_steps, c.derived.total_optimizer_steps));
  if (t.warmup_steps > 0 && t.warmup_ratio > 0)
    f.warn("actor_train.training_args.warmup_ratio", "has no effect beside warmup_steps");
}

bool scopes_to_group(const RewardNormalization& norm, const std::optional<NormScope>& scope,
                     bool by_method) {
  NormScope from_method = !by_method                         ? NormScope::none
                          : norm.grouping == Grouping::batch ? NormScope::batch
                                                             : NormScope::group;
  return scope.value_or(from_method) == NormScope::group;
}

void check_normalization(const RunConfig& c, Findings& f) {
  if (!usable(f, {"reward_normalization", "reward_normalization.method",
                  "reward_normalization.grouping", "reward_normalization.norm_mean_type",
                  "reward_normalization.norm_std_type", "train_env_manager.group_size"}))
    return;
  const RewardNormalization& norm = c.reward_normalization;
  bool has_mean = norm.method != NormMethod::identity;
  bool has_std = norm.method == NormMethod::mean_std || norm.method == NormMethod::asym_clip;
  bool is_grouped = scopes_to_group(norm, norm.norm_mean_type, has_mean) ||
                    scopes_to_group(norm, norm.norm_std_type, has_std);
  if (is_grouped && norm.grouping == Grouping::traj_group_id && c.train_env_manager.group_size == 1)
    f.problem("train_env_manager.group_size",
              "1 under reward_normalization by traj_group_id makes every advantage 0: nothing "
              "would be learnt; "
              "use at least 2 (ROLL's examples use 8), or reward_normalization.grouping: batch");
  bool is_identity = !has_mean && !norm.norm_mean_type && !norm.norm_std_type;
  if (c.adv_estimator == AdvEstimator::grpo && is_identity)
    f.warn("reward_normalization",
           "adv_estimator grpo does not normalise by itself in the agentic pipeline: "
           "without reward_normalization there is no baseline");
}

void check_kl(RunConfig& c, Findings& f) {
  if (!usable(f,
              {"init_kl_coef", "use_kl_loss", "add_token_level_kl", "kl_loss_coef", "target_kl"}))
    return;
  c.derived.is_reference_needed = c.init_kl_coef > 0 || c.use_kl_loss;
  std::string coefficient =
      fmt::format("{}{}", c.init_kl_coef, f.has("init_kl_coef") ? "" : " (ROLL's default)");
  if (c.derived.is_reference_needed && c.reference.device_mapping.empty() &&
      usable(f, {"reference", "reference.device_mapping"})) {
    std::string why = c.init_kl_coef > 0 ? "init_kl_coef " + coefficient : "use_kl_loss";
    f.problem(
        c.init_kl_coef > 0 ? "init_kl_coef" : "use_kl_loss",
        fmt::format(
            "{} needs a reference role with a device_mapping; set it to {}, or add `reference:`",
            why, c.init_kl_coef > 0 ? "0" : "false"));
  }
  if (c.init_kl_coef > 0 && !c.add_token_level_kl && !c.use_kl_loss)
    f.warn("init_kl_coef",
           fmt::format("{} builds a reference that only draws a chart: neither add_token_level_kl "
                       "nor use_kl_loss is on",
                       coefficient));
  if (!c.derived.is_reference_needed && c.reference.is_configured)
    f.note("reference", "not built: init_kl_coef is 0 and use_kl_loss is false");
  if (c.use_kl_loss && c.kl_loss_coef == 0)
    f.warn("use_kl_loss", "kl_loss_coef is 0: the KL is computed and weighs nothing");
  if (!c.use_kl_loss && c.kl_loss_coef > 0)
    f.warn("kl_loss_coef", "has no effect without use_kl_loss");
  if (c.target_kl && !c.add_token_level_kl)
    f.warn("target_kl", "has no effect without add_token_level_kl");
}

}  // namespace

void check_batches(RunConfig& c, Findings& f) {
  complete_lengths(c, f);
  check_rollout_batch(c, f);
  check_val_batch(c, f);
  check_optimizer_batch(c, f);
}

void check_algorithm(RunConfig& c, Findings& f) {
  if (usable(f, {"adv_estimator"}) && c.adv_estimator == AdvEstimator::gae)
    f.problem("adv_estimator",
              f.has("adv_estimator")
                  ? "gae needs a critic, which is not built into this binary; use grpo or reinforce"
                  : "missing: ROLL's default gae needs a critic, which is not built into this "
                    "binary; say "
                    "adv_estimator: grpo or reinforce");
  check_normalization(c, f);
  check_kl(c, f);
  if (c.use_pg_clip_range && f.has("pg_clip") && !c.dual_clip_loss)
    f.warn("pg_clip", "has no effect: use_pg_clip_range takes pg_clip_low and pg_clip_high");
  for (const char* key : {"pg_clip_low", "pg_clip_high"}) {
    if (!c.use_pg_clip_range && f.has(key))
      f.warn(key, "has no effect without use_pg_clip_range: true");
  }
  if (c.eval_steps > c.max_steps && f.has("eval_steps"))
    f.warn("eval_steps",
           fmt::format("{} is more than max_steps {}: only the ends of the run are evaluated",
                       c.eval_steps, c.max_steps));
}

void complete_and_check(RunConfig& config, Findings& findings, const LoadOptions& options) {
  check_batches(config, findings);
  check_algorithm(config, findings);
  check_roles(config, findings, options);
  check_environments(config, findings);
  check_runtime(config, findings);
}

}  // namespace cohort::config
