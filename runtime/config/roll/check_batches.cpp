/// Lengths, batches and the numbers that follow from them (docs/config.md, Batch algebra).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/config/role_weights.hpp"
#include "runtime/config/roll/roll_check.hpp"

namespace cohort::config {
namespace {

/// a * b, at most 2^62: a plan of that many steps is refused elsewhere.
int64_t product(int64_t a, int64_t b) {
  static constexpr int64_t k_max = int64_t{1} << 62;
  return b != 0 && a > k_max / b ? k_max : a * b;
}

void complete_lengths(RunConfig& c, Findings& f) {
  if (!usable(f, {"sequence_length", "response_length", "prompt_length"})) return;
  if (c.sequence_length == 0 && c.response_length == 0)
    return f.problem("sequence_length",
                     "missing: give sequence_length, or response_length (it adds prompt_length)");
  // Then the rest of the sequence is for the teacher's prompt, which is longer than the policy's.
  const bool has_hints = c.opd.is_self && c.sequence_length > 0;
  if (c.sequence_length == 0)
    c.sequence_length = c.prompt_length + c.response_length;
  else if (c.response_length > 0 && !has_hints)
    f.warn("response_length", "has no effect beside sequence_length {} (ROLL's rule)",
           c.sequence_length);
  if (!has_hints) c.response_length = 0;
  if (c.pipeline == Pipeline::rlvr && c.prompt_length >= c.sequence_length)
    f.problem("prompt_length", "{} leaves nothing of sequence_length {} for an answer",
              c.prompt_length, c.sequence_length);
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
                     "{} is not a multiple of train_env_manager.group_size {}; {}",
                     c.rollout_batch_size, train.group_size,
                     nearest_multiples(c.rollout_batch_size, train.group_size));
  c.derived.group_size = train.group_size;
  c.derived.groups_per_step = c.rollout_batch_size / train.group_size;
  c.derived.trajectories_per_step = c.rollout_batch_size;
  if (c.rollout_batch_size < environments)
    f.warn("rollout_batch_size",
           "a step takes {} trajectories, so {} of the {} environments (num_env_groups "
           "{} x group_size {}) are never started",
           c.rollout_batch_size, environments - c.rollout_batch_size, environments,
           train.num_env_groups, train.group_size);
}

void check_val_batch(RunConfig& c, Findings& f) {
  if (c.eval_steps <= 0 || !usable(f, {"val_batch_size", "val_env_manager.num_env_groups",
                                       "val_env_manager.group_size"}))
    return;
  const EnvManagerConfig& val = c.val_env_manager;
  int64_t environments = val.num_env_groups * val.group_size;
  if (c.val_batch_size < 0) c.val_batch_size = environments;
  if (c.val_batch_size == 0 || c.val_batch_size % environments != 0)
    return f.problem("val_batch_size",
                     "{} is not a multiple of {} = val_env_manager.num_env_groups {} x group_size "
                     "{}; {}",
                     c.val_batch_size, environments, val.num_env_groups, val.group_size,
                     nearest_multiples(c.val_batch_size, environments));
  c.derived.val_groups = c.val_batch_size / val.group_size;
  c.derived.val_group_size = val.group_size;
}

/// Environments that live at once, and ROLL's processes for them.
void count_environments(RunConfig& c) {
  auto count = [](const EnvManagerConfig& m, int64_t& environments, int64_t& workers) {
    environments = m.num_env_groups * (m.group_size + m.group_size_redundancy);
    int64_t each = m.max_env_num_per_worker > 0 ? m.max_env_num_per_worker : environments;
    workers = (environments + each - 1) / std::max<int64_t>(each, 1);
  };
  count(c.train_env_manager, c.derived.train_environments, c.derived.train_environment_workers);
  if (c.eval_steps > 0)
    count(c.val_env_manager, c.derived.val_environments, c.derived.val_environment_workers);
}

void check_prompts(RunConfig& c, Findings& f) {
  if (!usable(f, {"rollout_batch_size", "num_return_sequences_in_group"})) return;
  if (c.rollout_batch_size <= 0)
    return f.problem("rollout_batch_size", "{} prompts; rlvr needs at least 1",
                     c.rollout_batch_size);
  c.derived.group_size = c.num_return_sequences_in_group;
  c.derived.groups_per_step = c.rollout_batch_size;
  c.derived.trajectories_per_step = c.rollout_batch_size * c.num_return_sequences_in_group;
  c.derived.val_groups = std::max<int64_t>(c.val_batch_size, 0);  // at most the rows there are
  c.derived.val_group_size = c.rlvr.val_n_sample;
}

/// A step is one optimizer batch of rows, each a group of its own: of one answer, or of a pair.
void check_rows(RunConfig& c, Findings& f, WorkerConfig& role) {
  const std::string name = train_section(c);
  const TrainingArgs& t = role.training_args;
  if (!f.has("max_steps")) c.max_steps = t.max_steps > 0 ? t.max_steps : -1;
  if (c.max_steps > 0 && f.has(name + ".training_args.num_train_epochs"))
    f.warn(name + ".training_args.num_train_epochs", "has no effect beside max_steps {}",
           c.max_steps);
  if (c.eval_steps > 0 && c.validation.data_args.file_name.empty()) {
    if (f.has("eval_steps"))
      f.warn("eval_steps", "nothing is evaluated: there is no validation.data_args.file_name");
    c.eval_steps = -1;
  }
  if (!c.sft.global_template.empty()) role.data_args.template_name = c.sft.global_template;
  // Held-out rows are written as those of training, unless their section says otherwise.
  DataArgs& held_out = c.validation.data_args;
  const DataArgs& train = role.data_args;
  if (!f.has("validation.data_args.template")) held_out.template_name = train.template_name;
  if (!f.has("validation.data_args.chat_template_kwargs"))
    held_out.chat_template_kwargs = train.chat_template_kwargs;
  if (!f.has("validation.data_args.chat_template_date"))
    held_out.chat_template_date = train.chat_template_date;
  if (c.warm_start.steps > 0)
    f.problem("warm_start.steps", "pipeline {} is supervised from its first step; use 0",
              to_string(c.pipeline));
  c.derived.group_size = c.derived.val_group_size = has_pairs(c.pipeline) ? 2 : 1;
  c.derived.groups_per_step = t.per_device_train_batch_size * t.gradient_accumulation_steps *
                              role.strategy_args.data_parallel_size;
  c.derived.trajectories_per_step = c.derived.groups_per_step * c.derived.group_size;
  for (auto [key, data] :
       {std::pair{name, &role.data_args}, std::pair{std::string("validation"), &held_out}}) {
    const std::string path = key + ".data_args.truncation";
    if (!f.has(path)) data->truncation = PromptTruncation::right;
    if (data->truncation == PromptTruncation::middle)
      f.problem(path, "middle would cut a dialogue in two; use right, left or error");
  }
}

WorkerConfig& train_role(RunConfig& c) {
  if (c.pipeline == Pipeline::sft) return c.sft_train;
  return c.pipeline == Pipeline::distill ? c.student : c.actor_train;
}

/// rlvr: ROLL asserts that the samples of a card fill whole optimizer batches.
void refuse_indivisible(const RunConfig& c, Findings& f) {
  const TrainingArgs& t = c.actor_train.training_args;
  int64_t batch = c.derived.optimizer_batch;
  int64_t group = c.num_return_sequences_in_group;
  int64_t unit = batch / std::gcd(batch, group);
  f.problem("rollout_batch_size",
            "{} prompts x num_return_sequences_in_group {} = {} is not a multiple of {} = "
            "per_device_train_batch_size {} x gradient_accumulation_steps {} x {} train cards; {}",
            c.rollout_batch_size, group, c.derived.trajectories_per_step, batch,
            t.per_device_train_batch_size, t.gradient_accumulation_steps, c.derived.train_dp,
            nearest_multiples(c.rollout_batch_size, unit));
}

void complete_schedule(RunConfig& c, Findings& f, const TrainingArgs& t) {
  Derived& d = c.derived;
  d.total_optimizer_steps = product(std::max<int64_t>(c.max_steps, 0), d.optimizer_steps_per_step);
  auto total = static_cast<double>(d.total_optimizer_steps);
  d.warmup_steps =
      t.warmup_steps > 0 ? t.warmup_steps : static_cast<int64_t>(std::ceil(total * t.warmup_ratio));
  if (c.max_steps > 0 && d.warmup_steps > d.total_optimizer_steps)
    f.warn(train_section(c) + ".training_args.warmup_steps",
           "{} is more than the run's {} optimizer steps: the learning rate never reaches its peak",
           d.warmup_steps, d.total_optimizer_steps);
  if (t.warmup_steps > 0 && t.warmup_ratio > 0)
    f.warn(train_section(c) + ".training_args.warmup_ratio", "has no effect beside warmup_steps");
}

void tell_even_batches(const RunConfig& c, Findings& f, int64_t batches) {
  const TrainingArgs& t = c.actor_train.training_args;
  const int64_t most = (c.derived.trajectories_per_step + batches - 1) / batches;
  f.warn("rollout_batch_size",
         "{} trajectories are no multiple of {} = per_device_train_batch_size {} x "
         "gradient_accumulation_steps {} x {} train card{}: a step makes {} optimizer step{} of {}"
         "{}, and no trajectory is copied or dropped (ROLL's batch_adjust_mode {} would)",
         c.derived.trajectories_per_step, c.derived.optimizer_batch, t.per_device_train_batch_size,
         t.gradient_accumulation_steps, c.derived.train_dp, c.derived.train_dp == 1 ? "" : "s",
         batches, batches == 1 ? "" : "s", most,
         c.derived.trajectories_per_step % batches == 0 ? "" : " or one less",
         to_string(c.batch_adjust_mode));
}

/// docs/config.md, Batch algebra: optimizer steps per step = ppo_epochs · N / (P·A·D).
void check_optimizer_batch(RunConfig& c, Findings& f) {
  const TrainingArgs& t = train_role(c).training_args;
  if (!usable(f, {"rollout_batch_size", "ppo_epochs", "max_steps", "actor_train",
                  "actor_train.device_mapping", "actor_train.training_args",
                  "actor_train.training_args.per_device_train_batch_size",
                  "actor_train.training_args.gradient_accumulation_steps"}))
    return;
  Derived& d = c.derived;
  d.train_cards = static_cast<int64_t>(train_role(c).device_mapping.size());
  d.train_dp = d.train_cards == 0 ? 0 : train_role(c).strategy_args.data_parallel_size;
  d.optimizer_batch = t.per_device_train_batch_size * t.gradient_accumulation_steps * d.train_dp;
  if (has_pairs(c.pipeline)) d.optimizer_batch *= d.group_size;  // P counts pairs
  if (d.trajectories_per_step == 0 || d.optimizer_batch == 0) return;
  bool is_whole = d.trajectories_per_step % d.optimizer_batch == 0;
  if (!is_whole && c.pipeline == Pipeline::rlvr) return refuse_indivisible(c, f);
  // agentic: ROLL copies or drops trajectories to fill the last batch; here the batches are equal
  int64_t batches = (d.trajectories_per_step + d.optimizer_batch - 1) / d.optimizer_batch;
  const int64_t epochs = is_supervised(c.pipeline) ? 1 : c.ppo_epochs;
  d.optimizer_steps_per_step = epochs * batches;
  complete_schedule(c, f, t);
  int64_t scheduled =
      product(product(d.trajectories_per_step, c.ppo_epochs), std::max<int64_t>(c.max_steps, 0)) /
      d.optimizer_batch;
  if (!is_whole && scheduled < d.total_optimizer_steps &&
      t.lr_scheduler_type != SchedulerType::constant)
    f.warn("actor_train.training_args.lr_scheduler_type",
           "ROLL's schedule has max_steps {} x {} trajectories x ppo_epochs {} / {} = "
           "{} optimizer steps and ends early; here it has the run's {}",
           c.max_steps, d.trajectories_per_step, c.ppo_epochs, d.optimizer_batch, scheduled,
           d.total_optimizer_steps);
  if (!is_whole && c.pipeline == Pipeline::agentic) tell_even_batches(c, f, batches);
}

/// The same of a critic: its own P·A·D and epochs, and ROLL's max_grad_norm.
void count_critic(RunConfig& c) {
  const bool is_built = catalog::entry(c.adv_estimator).has(catalog::need::critic);
  const int64_t cards = c.critic.strategy_args.data_parallel_size;
  if (!is_built || c.critic.device_mapping.empty() || c.pipeline > Pipeline::rlvr) return;
  const TrainingArgs& t = c.critic.training_args;
  DerivedCritic& d = c.derived.critic;
  d.optimizer_batch = t.per_device_train_batch_size * t.gradient_accumulation_steps * cards;
  if (d.optimizer_batch == 0) return;
  d.ppo_epochs = c.critic_epochs > 0 ? c.critic_epochs : c.ppo_epochs;
  d.max_grad_norm = c.max_grad_norm;
  const int64_t trajectories = c.derived.trajectories_per_step;
  d.optimizer_steps_per_step =
      d.ppo_epochs * ((trajectories + d.optimizer_batch - 1) / d.optimizer_batch);
  d.total_optimizer_steps = product(std::max<int64_t>(c.max_steps, 0), d.optimizer_steps_per_step);
  d.warmup_steps = t.warmup_steps > 0
                       ? t.warmup_steps
                       : static_cast<int64_t>(std::ceil(
                             static_cast<double>(d.total_optimizer_steps) * t.warmup_ratio));
}

std::string recompute_reason(const RunConfig& c, int64_t steps_per_rank) {
  if (c.adv_estimator == AdvEstimator::gigpo || c.adv_estimator == AdvEstimator::step_reinforce)
    return fmt::format("adv_estimator {} asks for it", to_string(c.adv_estimator));
  if (steps_per_rank > 1)
    return fmt::format("{} optimizer steps per epoch: the second sees other weights",
                       steps_per_rank);
  if (c.init_kl_coef > 0) return fmt::format("init_kl_coef {} asks for it", c.init_kl_coef);
  return c.enable_old_logprobs_recompute ? "enable_old_logprobs_recompute" : "";
}

/// What a key names, else decisions/0001. A correction compares both, but for bypass_mode, whose
/// own ratio is to the recorded ones.
void decide_old_log_probs(RunConfig& c, Findings& f) {
  Derived& d = c.derived;
  const bool is_bypass = c.actor_train.pg_variant == PolicyLossKind::bypass_mode;
  if (is_bypass && (c.enable_old_logprobs_recompute || c.force_disable_old_logprobs_recompute))
    f.problem("actor_train.pg_variant",
              "bypass_mode divides by the recorded log-probabilities: remove "
              "enable_old_logprobs_recompute and force_disable_old_logprobs_recompute");
  if (is_bypass) return;
  const TrainInferCorrection& correction = c.train_infer_correction;
  if (correction.rules.is_asked() || !correction.rejections.empty()) {
    d.old_log_probs = OldLogProbs::recomputed;
    d.recompute_reason = "train_infer_correction compares them with the recorded ones";
    if (c.force_disable_old_logprobs_recompute)
      f.warn("force_disable_old_logprobs_recompute",
             "has no effect: train_infer_correction compares the recorded log-probabilities with "
             "those of a pass before the update");
    return;
  }
  if (!c.force_disable_old_logprobs_recompute) {
    if (c.enable_old_logprobs_recompute) d.old_log_probs = OldLogProbs::recomputed;
    return;
  }
  d.old_log_probs = OldLogProbs::first_pass;
  if (d.optimizer_steps_per_step > 1)
    f.problem("force_disable_old_logprobs_recompute",
              "true takes the old log-probabilities from the update's own forward pass, "
              "which is right only on-policy: {} trajectories must be one optimizer "
              "batch, not {} optimizer steps (batch {} x ppo_epochs {}); use false",
              d.trajectories_per_step, d.optimizer_steps_per_step, d.optimizer_batch, c.ppo_epochs);
}

void decide_recompute(RunConfig& c) {
  Derived& d = c.derived;
  int64_t steps_per_rank = d.optimizer_batch == 0 ? 0 : d.trajectories_per_step / d.optimizer_batch;
  std::string reason = recompute_reason(c, steps_per_rank);
  d.recompute_old_log_prob = !reason.empty() && !c.force_disable_old_logprobs_recompute;
  d.recompute_reason =
      d.recompute_old_log_prob ? reason
      : c.force_disable_old_logprobs_recompute
          ? "force_disable_old_logprobs_recompute"
          : "one optimizer step per epoch and no KL: the first forward pass stands in";
}

}  // namespace

void check_batches(RunConfig& c, Findings& f) {
  complete_lengths(c, f);
  if (c.pipeline == Pipeline::agentic) {
    check_rollout_batch(c, f);
    check_val_batch(c, f);
    count_environments(c);
  } else if (c.pipeline == Pipeline::rlvr) {
    check_prompts(c, f);
  } else if (is_supervised(c.pipeline)) {
    check_rows(c, f, train_role(c));
  }
  check_optimizer_batch(c, f);
  count_critic(c);
  if (const std::string section = train_section(c); section != "actor_train") {
    if (f.has("actor_train"))
      f.note("actor_train", "pipeline {} trains {}", to_string(c.pipeline), section);
    c.actor_train = train_role(c);
    c.actor_train.is_configured = false;  // it is not in the file
  }
  decide_recompute(c);
  decide_old_log_probs(c, f);
}

}  // namespace cohort::config
