#include "runtime/config/roll/roll_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "runtime/config/role_weights.hpp"
#include "runtime/config/roll/not_built.hpp"

namespace cohort::config {
namespace {

bool scopes_to_group(const RewardNormalization& norm, const std::optional<NormScope>& scope,
                     bool by_method) {
  NormScope from_method = !by_method                         ? NormScope::none
                          : norm.grouping == Grouping::batch ? NormScope::batch
                                                             : NormScope::group;
  return scope.value_or(from_method) == NormScope::group;
}

void check_normalization(RunConfig& c, Findings& f) {
  if (!usable(f, {"reward_normalization", "reward_normalization.method",
                  "reward_normalization.grouping", "reward_normalization.norm_mean_type",
                  "reward_normalization.norm_std_type", "train_env_manager.group_size"}))
    return;
  const RewardNormalization& norm = c.reward_normalization;
  if (set_own_baseline(c, f, "train_env_manager.group_size", c.train_env_manager.group_size))
    return;
  bool has_mean = norm.method != NormMethod::identity;
  bool has_std = norm.method == NormMethod::mean_std || norm.method == NormMethod::asym_clip;
  bool is_grouped = scopes_to_group(norm, norm.norm_mean_type, has_mean) ||
                    scopes_to_group(norm, norm.norm_std_type, has_std);
  const bool is_by_map =
      norm.grouping == Grouping::traj_group_id || norm.grouping == Grouping::state;
  if (is_grouped && is_by_map && c.train_env_manager.group_size == 1)
    f.warn("train_env_manager.group_size",
           "1 under reward_normalization by traj_group_id makes every advantage 0: nothing "
           "would be learnt; "
           "use at least 2 (ROLL's examples use 8), or reward_normalization.grouping: batch");
  c.derived.has_group_baseline = scopes_to_group(norm, norm.norm_mean_type, has_mean);
  c.derived.group_baseline = c.derived.has_group_baseline
                                 ? fmt::format("reward_normalization {} by {}",
                                               to_string(norm.method), to_string(norm.grouping))
                                 : "none";
  bool is_identity = !has_mean && !norm.norm_mean_type && !norm.norm_std_type;
  if (c.adv_estimator == AdvEstimator::grpo && is_identity)
    f.warn("reward_normalization",
           "adv_estimator grpo does not normalise by itself in the agentic pipeline: "
           "without reward_normalization there is no baseline");
}

std::string cards_text(const WorkerConfig& role) {
  if (role.device_mapping.empty()) return "";
  return fmt::format(" on {} card{}", role.device_mapping.size(),
                     role.device_mapping.size() == 1 ? "" : "s");
}

/// Cards that only a reference that is not built would use.
void warn_idle_cards(RunConfig& c, Findings& f) {
  std::set<uint32_t> idle(c.reference.device_mapping.begin(), c.reference.device_mapping.end());
  for (const NamedRole& x : roles_of(c))
    if (x.name != "reference")
      for (uint32_t id : x.role->device_mapping) idle.erase(id);
  if (!idle.empty())
    f.warn("reference.device_mapping",
           "card{} {} idle: no reference is built and no other role is mapped there",
           idle.size() == 1 ? "" : "s", fmt::join(idle, ", "));
}

}  // namespace

bool has_reference_role(RunConfig& c, Findings& f) {
  if (!has_adapter(c.actor_train.model_args) || !own_reference(c).empty()) return true;
  if (c.derived.is_reference_needed && !c.reference.device_mapping.empty()) {
    c.reference.device_mapping.clear();
    c.reference.strategy_args.data_parallel_size = StrategySettings{}.data_parallel_size;
    f.note("reference.device_mapping",
           "with LoRA the reference is the trainer's model with its adapter off, on its cards");
  }
  return false;
}

namespace {

void check_kl(RunConfig& c, Findings& f) {
  if (!usable(f,
              {"init_kl_coef", "use_kl_loss", "add_token_level_kl", "kl_loss_coef", "target_kl"}))
    return;
  Derived& d = c.derived;
  // Beside a teacher init_kl_coef, above 0 by default, builds no reference for a chart alone.
  const bool has_kl_coef = c.init_kl_coef > 0 && (!c.opd.is_asked() || c.add_token_level_kl);
  d.is_reference_needed = has_kl_coef || c.use_kl_loss || c.enable_reference;
  d.is_reference_metric_only = d.is_reference_needed && !c.add_token_level_kl && !c.use_kl_loss;
  std::string coefficient =
      fmt::format("{}{}", c.init_kl_coef, f.has("init_kl_coef") ? "" : " (ROLL's default)");
  const bool has_role = has_reference_role(c, f);
  if (d.is_reference_needed && has_role && c.reference.device_mapping.empty() &&
      usable(f, {"reference", "reference.device_mapping"})) {
    std::string key = has_kl_coef     ? "init_kl_coef"
                      : c.use_kl_loss ? "use_kl_loss"
                                      : "enable_reference";
    f.problem(key,
              "{} needs a reference role with a device_mapping; set it to {}, or add `reference:`",
              has_kl_coef ? key + " " + coefficient : key, has_kl_coef ? "0" : "false");
  }
  if (has_kl_coef && !c.add_token_level_kl && !c.use_kl_loss)
    f.warn("init_kl_coef",
           "{} builds a reference that only draws a chart{}: neither "
           "add_token_level_kl nor use_kl_loss is on",
           coefficient, cards_text(c.reference));
  if (!d.is_reference_needed && c.reference.is_configured) {
    f.note("reference", "not built: init_kl_coef is 0 and use_kl_loss is false");
    warn_idle_cards(c, f);
  }
  if (c.use_kl_loss && c.kl_loss_coef == 0)
    f.warn("use_kl_loss", "kl_loss_coef is 0: the KL is computed and weighs nothing");
  if (!c.use_kl_loss && c.kl_loss_coef > 0)
    f.warn("kl_loss_coef", "has no effect without use_kl_loss");
  if (c.target_kl && !c.add_token_level_kl)
    f.warn("target_kl", "has no effect without add_token_level_kl");
}

/// The estimators that divide token losses by a constant choose that aggregation.
void complete_aggregation(RunConfig& c, Findings& f) {
  const catalog::Entry& estimator = catalog::entry(c.adv_estimator);
  if (estimator.has(catalog::need::constant_length) && !f.has("loss_agg_mode"))
    c.loss_agg_mode = LossAgg::seq_mean_token_constant;
  const bool is_constant = catalog::entry(c.loss_agg_mode).has(catalog::need::constant_length);
  if (estimator.has(catalog::need::constant_length) && !is_constant)
    f.warn("loss_agg_mode",
           "{} weighs answers by their length; {} divides by a constant: seq-mean-token-constant",
           to_string(c.loss_agg_mode), estimator.name());
  if (c.loss_scale_factor && !is_constant)
    f.warn("loss_scale_factor", "has no effect with loss_agg_mode {}", to_string(c.loss_agg_mode));
}

void check_estimator(RunConfig& c, Findings& f) {
  if (!usable(f, {"adv_estimator"}) || c.pipeline > Pipeline::rlvr) return;
  const std::string_view name = to_string(c.adv_estimator);
  const bool has_critic = catalog::entry(c.adv_estimator).has(catalog::need::critic);
  if (has_critic && !f.has("adv_estimator"))
    f.warn("adv_estimator",
           "left to its default {}, which needs a critic{}; say grpo or reinforce if none is meant",
           name, c.critic.is_configured ? "" : " (there is no `critic:` section)");
  else if (has_critic && c.critic.device_mapping.empty() && usable(f, {"critic"}))
    f.warn("adv_estimator", "{} needs a critic: there is no `critic:` with a device_mapping", name);
  if (!has_critic && c.critic.is_configured)
    f.note("critic", "not built: adv_estimator {} needs none", name);
  if (!has_critic && !c.reward_pretrain.empty())
    f.note("reward_pretrain", "no critic is built: adv_estimator {} needs none", name);
  if (!has_critic && c.critic_warmup > 0)
    f.warn("critic_warmup", "has no effect: adv_estimator {} needs no critic", name);
  complete_aggregation(c, f);
}

void check_clips(const RunConfig& c, Findings& f) {
  const RunConfig defaults;
  if (c.use_pg_clip_range && c.pg_clip != defaults.pg_clip && !c.dual_clip_loss)
    f.warn("pg_clip", "has no effect: use_pg_clip_range takes pg_clip_low and pg_clip_high");
  for (const auto& [key, bound] :
       {std::pair{"pg_clip_low", c.pg_clip_low}, std::pair{"pg_clip_high", c.pg_clip_high}}) {
    if (!c.use_pg_clip_range && bound != defaults.pg_clip)
      f.warn(key, "has no effect without use_pg_clip_range: true");
  }
  if (c.eval_steps > c.max_steps && c.max_steps > 0 && c.eval_steps != defaults.eval_steps)
    f.warn("eval_steps", "{} is more than max_steps {}: only the ends of the run are evaluated",
           c.eval_steps, c.max_steps);
  if (c.max_steps == 0 && usable(f, {"max_steps"}))
    f.problem("max_steps", "0 steps; give at least 1");
}

/// What the loss takes from elsewhere, or does not read.
void check_loss(RunConfig& c, Findings& f) {
  const catalog::Entry& loss =
      catalog::entry(c.actor_train.pg_variant.value_or(PolicyLossKind::ppo));
  if (loss.has(catalog::need::own_aggregation) && f.has("loss_agg_mode"))
    f.warn("loss_agg_mode",
           "counts for the KL and the entropy alone: pg_variant {} averages by "
           "itself ({})",
           loss.name(), loss.help);
  TrainInferCorrection& correction = c.train_infer_correction;
  const std::string key = "train_infer_correction.rejections";
  auto rejections =
      catalog::parse_rejections(correction.rejections, correction.rejection_thresholds);
  if (!rejections) {
    f.problem(key, "{}", rejections.error().detail);
    return;
  }
  correction.rules.rejections = std::move(*rejections);
  const auto low = correction.rules.low, high = correction.rules.high;
  if (low && high && *low > *high)
    f.problem("train_infer_correction.is_weight.lower_bound", "{} is above upper_bound {}", *low,
              *high);
}

Pipeline infer_pipeline(const Findings& f, std::string& key) {
  auto has_any = [&](std::initializer_list<const char*> keys) {
    for (const char* x : keys)
      if (f.has(x)) {
        key = x;
        return true;
      }
    return false;
  };
  if (has_any({"train_env_manager", "val_env_manager", "custom_envs"})) return Pipeline::agentic;
  if (has_any({"sft_train"})) return Pipeline::sft;
  if (has_any({"student"})) return Pipeline::distill;
  if (has_any({"student_train", "is_pure_opd", "use_opd"})) return Pipeline::rlvr;
  if (has_any({"center_rewards_coefficient"})) return Pipeline::rm;
  if (has_any(
          {"chosen_key", "rejected_key", "ipo", "beta", "use_reference_model", "preference_loss"}))
    return Pipeline::dpo;
  if (has_any({"rewards", "num_return_sequences_in_group", "actor_train.data_args.file_name"}))
    return Pipeline::rlvr;
  return Pipeline::agentic;
}

void warn_not_built(const RunConfig& c, Findings& f) {
  for (const Note& note : f.refused)
    f.warnings.push_back({note.key, note.where, std::string(k_not_run) + note.text});
  for (const Note& note : not_built(c)) {
    bool is_known = std::any_of(f.warnings.begin(), f.warnings.end(),
                                [&](const Note& x) { return x.key == note.key; });
    if (!is_known || note.key != "adv_estimator")  // its own warning says more
      f.warnings.push_back({note.key, note.where, std::string(k_not_run) + note.text});
  }
}

}  // namespace

std::string own_reference(const RunConfig& c) {
  const std::string& folder = c.reference.model_args.model_name_or_path;
  return c.derived.is_reference_needed && folder != c.pretrain ? folder : "";
}

bool is_judge_on_cards(const RewardConfig& reward) {
  return reward.type == RewardType::llm_judge && reward.judge_model_type == "inference";
}

bool is_on_cards(const RewardConfig& reward) {
  return reward.type == RewardType::reward_model || is_judge_on_cards(reward);
}

bool has_adapter(const ModelArgs& m) {
  return !m.lora_target.empty() || !m.adapter_name_or_path.empty();
}

std::string train_section(const RunConfig& c) {
  if (c.pipeline == Pipeline::distill) return "student";
  return c.pipeline == Pipeline::sft ? "sft_train" : "actor_train";
}

std::string critic_start(const RunConfig& c) {
  const std::string& own = c.critic.model_args.model_name_or_path;
  if (!own.empty()) return own;
  return c.reward_pretrain.empty() ? c.pretrain : c.reward_pretrain;
}

bool set_own_baseline(RunConfig& c, Findings& f, const std::string& group_key, int64_t group_size) {
  const catalog::Entry& estimator = catalog::entry(c.adv_estimator);
  if (!estimator.has(catalog::need::own_baseline)) return false;
  for (const char* key : {"reward_normalization.grouping", "reward_normalization.method",
                          "reward_normalization.norm_mean_type",
                          "reward_normalization.norm_std_type", "norm_mean_type", "norm_std_type"})
    if (f.has(key))
      f.warn(key, "has no effect: adv_estimator {} sets the baseline itself", estimator.name());
  if (group_size == 1)
    f.warn(group_key,
           "1 under adv_estimator {} makes every advantage 0: nothing would "
           "be learnt; use at least 2",
           estimator.name());
  c.derived.has_group_baseline = true;
  c.derived.group_baseline = fmt::format("{}: {}", estimator.name(), estimator.help);
  return true;
}

std::string nearest_multiples(int64_t value, int64_t unit) {
  int64_t below = value / unit * unit;
  return below > 0 ? fmt::format("nearest that work: {}, {}", below, below + unit)
                   : fmt::format("the smallest that works: {}", unit);
}

void complete_pipeline(RunConfig& c, Findings& f) {
  std::string key;
  if (!f.has("pipeline")) {
    c.pipeline = infer_pipeline(f, key);
    if (!key.empty()) c.origins["pipeline"] = f.mark_of(key).file_line();
  }
  bool is_group_given = f.has("num_return_sequences_in_group");
  if (c.pipeline == Pipeline::agentic && c.num_return_sequences_in_group != 1 && is_group_given) {
    f.warn("num_return_sequences_in_group",
           "{} has no effect in pipeline agentic: the group is train_env_manager.group_size",
           c.num_return_sequences_in_group);
    c.num_return_sequences_in_group = 1;
  }
  int64_t& answers = c.actor_infer.generating_args.num_return_sequences;
  const std::string path = "actor_infer.generating_args.num_return_sequences";
  if (answers != c.num_return_sequences_in_group && f.has(path) && usable(f, {path}))
    f.warn(
        path, "{} is rewritten to {} (ROLL's rule: {})", answers, c.num_return_sequences_in_group,
        c.pipeline == Pipeline::rlvr ? "num_return_sequences_in_group" : "the group is group_size");
  answers = c.num_return_sequences_in_group;
}

void check_algorithm(RunConfig& c, Findings& f) {
  check_estimator(c, f);
  if (!c.gdpo_reward_weights.empty() && c.gdpo_reward_weights.size() != c.gdpo_reward_keys.size())
    f.problem("gdpo_reward_weights", "{} weights for {} gdpo_reward_keys",
              c.gdpo_reward_weights.size(), c.gdpo_reward_keys.size());
  check_loss(c, f);
  if (c.pipeline == Pipeline::agentic) check_normalization(c, f);
  if (c.pipeline <= Pipeline::rlvr) check_kl(c, f);
  if (has_pairs(c.pipeline)) check_pairs(c, f);
  check_clips(c, f);
}

void complete_and_check(RunConfig& config, Findings& findings, const LoadOptions& options) {
  for (const auto& [key, mark] : findings.present)
    if (!key.empty()) config.origins[key] = mark.file_line();
  complete_pipeline(config, findings);
  check_opd(config, findings);
  check_roles(config, findings, options);
  check_batches(config, findings);
  check_algorithm(config, findings);
  check_demonstrations(config, findings);
  check_environments(config, findings);
  check_rlvr(config, findings);
  check_runtime(config, findings);
  note_inert(config, findings);
  if (findings.problems.empty()) warn_not_built(config, findings);
}

}  // namespace cohort::config
