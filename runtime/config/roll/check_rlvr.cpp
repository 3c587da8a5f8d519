/// Rules on pipeline rlvr, and the notes on known keys that do nothing here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/base/suggest.hpp"
#include "runtime/config/role_cuts.hpp"
#include "runtime/config/roll/not_built.hpp"
#include "runtime/config/roll/roll_check.hpp"
#include "runtime/config/train_groups.hpp"

namespace cohort::config {
namespace {

RewardType type_of_class(const std::string& worker_cls) {
  std::string name;  // module and class: ROLL's ifeval class is called GeneralRuleRewardWorker
  for (char c : worker_cls)
    if (c != '_') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto rows = catalog::entries(RewardType{});
  for (size_t row = 0; row < rows.size(); ++row)
    for (std::string_view piece : catalog::words(rows[row].worker_classes))
      if (name.find(piece) != std::string::npos) return static_cast<RewardType>(row);
  return RewardType::custom;
}

/// A reward without `type` is what its worker_cls says.
void complete_rewards(RunConfig& c, Findings& f) {
  for (auto& [name, reward] : c.rewards) {
    std::string path = "rewards." + name;
    if (f.has(path + ".type") || reward.worker_cls.empty()) continue;
    reward.type = type_of_class(reward.worker_cls);
    if (reward.type == RewardType::custom)
      f.warn(path + ".worker_cls", "{}: not one of ROLL's scorers; it cannot be loaded here",
             reward.worker_cls);
  }
  if (c.rewards.empty() && c.pipeline == Pipeline::agentic && usable(f, {"rewards"}))
    c.rewards["env_return"] = {};
  for (auto& [name, reward] : c.rewards) {  // a judge says little, and the same again
    if (!is_judge_on_cards(reward)) continue;
    constexpr int64_t k_reply = 512, k_at_once = 16;
    if (!f.has("rewards." + name + ".workers")) reward.plugin.workers = k_at_once;
    GeneratingArgs& args = reward.worker.generating_args;
    const std::string path = "rewards." + name + ".generating_args.";
    if (!f.has(path + "max_new_tokens")) args.max_new_tokens = k_reply;
    if (!f.has(path + "temperature")) args.temperature = 0;
  }
}

/// ROLL: int(share * prompts), the last domain gets what is left.
void split_domains(RunConfig& c, Findings& f) {
  const auto& shares = c.actor_train.data_args.domain_interleave_probs;
  const std::string path = "actor_train.data_args.domain_interleave_probs";
  std::vector<std::string> names;
  for (const auto& [name, reward] : c.rewards) names.push_back(name);
  double sum = 0;
  int64_t left = c.rollout_batch_size;
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto& [domain, share] = shares[i];
    sum += share;
    auto prompts = static_cast<int64_t>(share * static_cast<double>(c.rollout_batch_size));
    if (i + 1 == shares.size()) prompts = std::max<int64_t>(left, 0);
    left -= prompts;
    c.derived.domain_prompts.emplace_back(domain, prompts);
    if (!c.rewards.contains(domain))
      f.warn(path, "domain {} has no scorer: there is no rewards.{}{}", domain, domain,
             did_you_mean(domain, names));
    if (prompts == 0) f.warn(path, "domain {} gets 0 of {} prompts", domain, c.rollout_batch_size);
  }
  if (!shares.empty() && std::abs(sum - 1) > 1e-6)
    f.warn(path, "the shares add up to {}, not 1; the last domain gets what is left", sum);
}

void check_tags(const RunConfig& c, Findings& f) {
  const auto& shares = c.actor_train.data_args.domain_interleave_probs;
  std::map<std::string, std::string> domain_of;
  for (const auto& [name, reward] : c.rewards) {
    std::string path = "rewards." + name;
    for (const std::string& tag : reward.tag_included) {
      auto [it, is_new] = domain_of.try_emplace(tag, name);
      if (!is_new)
        f.warn(path + ".tag_included", "tag {} is in rewards.{} too; ROLL takes one of them", tag,
               it->second);
    }
    bool is_sampled = shares.empty() ||
                      std::any_of(shares.begin(), shares.end(),
                                  [&domain = name](const auto& x) { return x.first == domain; });
    if (!is_sampled)
      f.warn(path, "gets no prompt: it is not in actor_train.data_args.domain_interleave_probs");
  }
}

void check_answers(RunConfig& c, Findings& f) {
  const std::string path = "actor_infer.generating_args.max_new_tokens";
  int64_t room = c.sequence_length - c.prompt_length;
  int64_t& tokens = c.actor_infer.generating_args.max_new_tokens;
  if (c.opd.is_self && c.response_length > 0 && c.response_length < room) {
    tokens = c.response_length;
    return;
  }
  if (room <= 0 || !usable(f, {path, "prompt_length", "sequence_length"})) return;
  if (f.has(path) && tokens != room)
    f.warn(path, "{} is rewritten to {} = sequence_length {} - prompt_length {} (ROLL's rule)",
           tokens, room, c.sequence_length, c.prompt_length);
  tokens = room;
}

void check_baseline(RunConfig& c, Findings& f) {
  if (set_own_baseline(c, f, "num_return_sequences_in_group", c.num_return_sequences_in_group))
    return;
  bool is_grpo = c.adv_estimator == AdvEstimator::grpo;  // ROLL forces group and group
  NormScope mean = is_grpo ? NormScope::group : c.norm_mean_type.value_or(NormScope::none);
  NormScope deviation = is_grpo ? NormScope::group : c.norm_std_type.value_or(NormScope::none);
  c.derived.has_group_baseline = mean == NormScope::group;
  c.derived.group_baseline =
      mean == NormScope::none
          ? "none"
          : fmt::format("mean by {}, deviation by {}", to_string(mean), to_string(deviation));
  bool is_grouped = mean == NormScope::group || deviation == NormScope::group;
  if (is_grouped && c.num_return_sequences_in_group == 1)
    f.warn("num_return_sequences_in_group",
           "1 under a group baseline makes every advantage 0: nothing would be learnt; use at "
           "least 2 (ROLL's examples use 8)");
  if ((mean == NormScope::group) != (deviation == NormScope::group) && deviation != NormScope::none)
    f.warn("norm_std_type", "mixed with norm_mean_type: ROLL broadcasts them to wrong shapes");
}

/// Keys that only rlvr reads, in a config of another pipeline.
void note_rlvr_keys(const RunConfig& c, Findings& f) {
  static constexpr std::string_view k_keys =
      "rl_loss_coef importance_sampling difficulty_loss_weight length_loss_weight max_len_mask "
      "difficulty_mask difficulty_low_threshold difficulty_high_threshold error_max_len_clip "
      "error_max_len_threshold val_greedy val_n_sample is_num_return_sequences_expand "
      "is_use_additional_prompts max_additional_running_prompts validation";
  for (std::string_view key : catalog::words(k_keys))
    if (f.has(std::string(key)) && c.pipeline <= Pipeline::rlvr)
      f.note(std::string(key), "only pipeline rlvr reads it");
}

void check_dynamic_sampling(const RunConfig& c, Findings& f) {
  const RlvrSection& x = c.rlvr;
  if (x.is_use_additional_prompts)
    f.note("is_use_additional_prompts",
           "no prompt starts that would be dropped: one that is filtered out is replaced at once "
           "(docs/leases.md)");
  if (f.has("dynamic_sampling") && !has_group_filter(c))
    f.warn("dynamic_sampling", "no groups are left out: give it a type");
  const int64_t group = c.pipeline == Pipeline::rlvr ? c.num_return_sequences_in_group
                                                     : c.train_env_manager.group_size;
  if (c.dynamic_sampling.filter.type == GroupFilter::std_filter && group < 2)
    f.warn("dynamic_sampling.type", "std_filter keeps every group of one");
}

void check_data(const RunConfig& c, Findings& f, const std::string& path, const DataArgs& data) {
  if (!data.messages.empty() && !data.prompt.empty() && usable(f, {path + ".messages"}))
    f.problem(path + ".messages", "not together with prompt: give the column of one of them");
  if (c.pipeline == Pipeline::agentic && data.is_configured)
    f.note(path, "environments make the data; prompts come from their templates");
}

void note_role(const RunConfig& c, Findings& f, const NamedRole& x) {
  const ModelArgs& m = x.role->model_args;
  std::string model = x.name + ".model_args.";
  if (m.attn_implementation)
    f.note(model + "attn_implementation", "the built-in engine has one attention kernel");
  bool is_train = x.name == "actor_train" || x.name == "sft_train" || x.name == "student";
  const bool is_trained = is_train || x.name == "critic";
  if (const std::string cut = cut_in_run(x.name, *x.role, is_trained); !cut.empty())
    f.note(x.name + ".strategy_args.strategy_config", "{}", cut);
  if (!m.freeze_module_prefix.empty() && freezes_no_text(m))
    f.note(model + "freeze_module_prefix", "a text model has no module of that name");
  if (x.name == "critic" && m.model_type == ModelType::trl)
    f.note(model + "model_type", "trl: the value head is the same, and starts at 0");
  if (!m.is_gradient_checkpointing && !is_train)
    f.note(model + "disable_gradient_checkpointing", "the role does not train");
  check_data(c, f, x.name + ".data_args", x.role->data_args);
}

}  // namespace

/// Whether this key of validation.generating_args says what actor_infer's says.
bool is_as_trained(const RunConfig& c, std::string_view key) {
  const GeneratingArgs &held_out = c.validation.generating_args,
                       &own = c.actor_infer.generating_args;
  return key == "stop_strings" ? held_out.stop_strings == own.stop_strings
                               : held_out.max_new_tokens >= own.max_new_tokens;
}

void check_rlvr(RunConfig& c, Findings& f) {
  complete_rewards(c, f);
  check_dynamic_sampling(c, f);
  if (c.pipeline != Pipeline::rlvr) {
    bool is_agentic = c.pipeline == Pipeline::agentic;
    for (const auto& [key, scope] : {std::pair{"norm_mean_type", c.norm_mean_type},
                                     std::pair{"norm_std_type", c.norm_std_type}})
      if (scope && is_agentic)
        f.warn(key, "has no effect in pipeline agentic: use reward_normalization");
    note_rlvr_keys(c, f);
    return;
  }
  if (c.eval_steps > 0 && c.validation.data_args.file_name.empty()) {
    if (f.has("eval_steps"))
      f.note("eval_steps", "nothing is evaluated: validation.data_args.file_name is missing");
    c.eval_steps = -1;
  }
  if (c.validation.is_configured && !f.has("validation.generating_args"))
    c.validation.generating_args = c.actor_infer.generating_args;
  for (const char* key : {"max_new_tokens", "stop_strings"})
    if (const std::string path = std::string("validation.generating_args.") + key;
        f.has(path) && !is_as_trained(c, key))
      f.note(path, "has no effect: held-out answers end as those of actor_infer do");
  check_answers(c, f);
  check_baseline(c, f);
  if (usable(f, {"rewards", "rollout_batch_size", "actor_train.data_args.domain_interleave_probs"}))
    split_domains(c, f);
  if (usable(f, {"rewards"})) check_tags(c, f);
  if (c.async_generation_ratio > 0 && c.async_generation_ratio < 1)
    f.problem("async_generation_ratio", "{} is between 0 and 1; rlvr takes 0, or 1 and more",
              c.async_generation_ratio);
}

void note_inert(RunConfig& c, Findings& f) {
  const TrainingArgs& args = c.actor_train.training_args;
  for (const auto& [key, is_given] :
       {std::pair{"num_train_epochs", args.num_train_epochs != TrainingArgs{}.num_train_epochs},
        std::pair{"max_steps", args.max_steps != TrainingArgs{}.max_steps}})
    if (const std::string path = std::string("actor_train.training_args.") + key;
        is_given && f.has(path) && c.pipeline <= Pipeline::rlvr)
      f.note(path,
             "max_steps at the top decides how long the run is; ROLL's rlvr and agentic do not "
             "read it");
  for (const NamedRole& x : roles_of(c)) note_role(c, f, x);
  check_data(c, f, "validation.data_args", c.validation.data_args);
  if (!c.system_envs.empty())
    f.note("system_envs",
           "they reach processes that hold cards (--processes, a cluster); a run in one process "
           "has the variables you start it with (doctor checks them)");
  if (c.track_with != "tensorboard")
    f.note("track_with", "metrics.jsonl and TensorBoard files are always written");
  if (c.batch_adjust_mode != BatchAdjustMode::copy)
    f.note("batch_adjust_mode", "no trajectory is copied or dropped");
}

}  // namespace cohort::config
