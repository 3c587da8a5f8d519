#include "runtime/plan/estimate/batch.hpp"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <utility>

namespace cohort::plan {
namespace {

/// Keeps every product below in 64 bits.
constexpr uint64_t k_max_count = uint64_t{1} << 20;

using Named = std::pair<const char*, uint64_t>;

std::string text(uint64_t value) { return std::to_string(value); }

/// Returns "x = a*b + r".
std::string division(uint64_t value, uint64_t by) {
  return text(value) + " = " + text(value / by) + "*" + text(by) + " + " + text(value % by);
}

Error refusal(const std::string& what) { return {Errc::config, "batch: " + what}; }

/// Names of the keys, as the dialect spells them.
struct Keys {
  const char *batch, *group, *micro, *accumulate;
};
Keys keys_of(BatchKind kind) {
  if (kind == BatchKind::verl) return {"data.train_batch_size", "rollout.n", "", ""};
  return {"rollout_batch_size",
          kind == BatchKind::rlvr ? "num_return_sequences_in_group" : "group_size",
          "per_device_train_batch_size", "gradient_accumulation_steps"};
}

Expected<void> check_counts(std::initializer_list<Named> counts, bool may_be_zero) {
  for (auto [name, value] : counts) {
    if (value == 0 && !may_be_zero) return refusal(std::string(name) + " is 0");
    if (value > k_max_count)
      return refusal(std::string(name) + " " + text(value) + " is over the bound of " +
                     text(k_max_count));
  }
  return {};
}

Expected<void> check_ranges(const BatchOptions& x) {
  Keys keys = keys_of(x.kind);
  COHORT_TRY(check_counts({{keys.batch, x.rollout_batch_size},
                           {keys.group, x.group_size},
                           {"num_env_groups", x.num_env_groups},
                           {"per_device_train_batch_size", x.per_device_train_batch_size},
                           {"gradient_accumulation_steps", x.gradient_accumulation_steps},
                           {"train cards", x.train_cards},
                           {"ppo_epochs", x.ppo_epochs},
                           {"validation group_size", x.val_group_size},
                           {"validation num_env_groups", x.val_num_env_groups},
                           {"infer tensor parallel", x.infer_tp},
                           {"infer pipeline parallel", x.infer_pp}},
                          false));
  COHORT_TRY(check_counts({{"max_steps", x.max_steps},
                           {"val_batch_size", x.val_batch_size},
                           {"log-prob batch size", x.log_prob_batch_size},
                           {"infer cards", x.infer_cards},
                           {"ppo_mini_batch_size", x.mini_batch_size},
                           {"ppo_micro_batch_size_per_gpu", x.micro_batch_size},
                           {"agent workers", x.agent_workers},
                           {"test_freq", x.test_freq}},
                          true));
  uint64_t batch = x.per_device_train_batch_size * x.gradient_accumulation_steps * x.train_cards;
  if (batch > k_max_count)
    return refusal("P*A*D = " + text(x.per_device_train_batch_size) + "*" +
                   text(x.gradient_accumulation_steps) + "*" + text(x.train_cards) + " = " +
                   text(batch) + " is over the bound of " + text(k_max_count));
  if (x.rollout_batch_size * x.group_size > k_max_count * 16)
    return refusal("trajectories per step " + text(x.rollout_batch_size * x.group_size) +
                   " are over the bound of " + text(k_max_count * 16));
  if (x.total_epochs > k_max_count || x.dataset_rows > (uint64_t{1} << 40))
    return refusal("total_epochs or the rows of the data set are over their bounds");
  return {};
}

/// `value` must be a multiple of `unit`; `formula` says what unit is.
Expected<void> check_multiple(const std::string& key, uint64_t value, const std::string& formula,
                              uint64_t unit) {
  if (value % unit == 0) return {};
  return refusal(key + " " + text(value) + " is not a multiple of " + formula + ": " +
                 division(value, unit) + "; nearest " + key +
                 " that works: " + nearest_multiples(value, unit));
}

Expected<void> check_replicas(const BatchOptions& x) {
  uint64_t unit = x.infer_tp * x.infer_pp;
  return check_multiple("infer cards", x.infer_cards,
                        "tensor*pipeline parallel = " + text(x.infer_tp) + "*" + text(x.infer_pp) +
                            " = " + text(unit),
                        unit);
}

Expected<void> check_groups(const BatchOptions& x) {
  if (x.rollout_batch_size % x.group_size == 0) return {};
  return refusal(
      "rollout_batch_size " + text(x.rollout_batch_size) + " is not a multiple of group_size: " +
      division(x.rollout_batch_size, x.group_size) + "; nearest rollout_batch_size that works: " +
      nearest_multiples(x.rollout_batch_size, x.group_size) +
      "; nearest group_size: " + nearest_divisors(x.rollout_batch_size, x.group_size));
}

/// BATCH-1, in ROLL's terms. `per_prompt` trajectories come from one unit of rollout_batch_size.
Expected<void> check_optimizer_batch(const BatchOptions& x, uint64_t per_prompt) {
  uint64_t per_pass = x.per_device_train_batch_size * x.train_cards;
  uint64_t batch = per_pass * x.gradient_accumulation_steps;
  uint64_t trajectories = x.rollout_batch_size * per_prompt;
  if (trajectories % batch == 0 || x.is_evenly_cut) return {};
  std::string what = "rollout_batch_size " + text(x.rollout_batch_size);
  if (per_prompt > 1) what += " * " + text(per_prompt) + " = " + text(trajectories);
  uint64_t unit =
      per_prompt > 1 ? batch / std::gcd(batch, per_prompt) : std::lcm(batch, x.group_size);
  std::string detail =
      what + " is not a multiple of P*A*D = " + text(x.per_device_train_batch_size) + "*" +
      text(x.gradient_accumulation_steps) + "*" + text(x.train_cards) + " = " + text(batch) +
      " (per_device_train_batch_size * gradient_accumulation_steps * train cards): " +
      division(trajectories, batch) +
      "; nearest rollout_batch_size that works: " + nearest_multiples(x.rollout_batch_size, unit);
  if (trajectories % per_pass == 0)
    detail += "; nearest gradient_accumulation_steps: " +
              nearest_divisors(trajectories / per_pass, x.gradient_accumulation_steps);
  return refusal(detail);
}

Expected<void> check_validation(const BatchOptions& x) {
  uint64_t unit = x.val_group_size * x.val_num_env_groups;
  return check_multiple("val_batch_size", x.val_batch_size,
                        "validation num_env_groups*group_size = " + text(x.val_num_env_groups) +
                            "*" + text(x.val_group_size) + " = " + text(unit),
                        unit);
}

Expected<void> check_verl(const BatchOptions& x) {
  uint64_t ranks = x.train_cards, n = x.group_size;
  COHORT_TRY(check_counts({{"actor.ppo_mini_batch_size", x.mini_batch_size}}, false));
  if (x.rollout_batch_size < x.mini_batch_size)
    return refusal("data.train_batch_size " + text(x.rollout_batch_size) +
                   " is below actor.ppo_mini_batch_size " + text(x.mini_batch_size) +
                   "; set ppo_mini_batch_size to at most " + text(x.rollout_batch_size));
  if (x.rollout_batch_size % x.mini_batch_size != 0)
    return refusal("data.train_batch_size " + text(x.rollout_batch_size) +
                   " is not a multiple of actor.ppo_mini_batch_size: " +
                   division(x.rollout_batch_size, x.mini_batch_size) +
                   " (verl would train on a short last mini-batch and scale it wrongly); nearest "
                   "train_batch_size that works: " +
                   nearest_multiples(x.rollout_batch_size, x.mini_batch_size) +
                   "; nearest ppo_mini_batch_size: " +
                   nearest_divisors(x.rollout_batch_size, x.mini_batch_size));
  uint64_t mini = x.mini_batch_size * n, unit = ranks / std::gcd(ranks, n);
  if (mini % ranks != 0)
    return refusal(
        "actor.ppo_mini_batch_size " + text(x.mini_batch_size) + " * rollout.n " + text(n) + " = " +
        text(mini) + " does not split over " + text(ranks) +
        " data-parallel ranks: " + division(mini, ranks) +
        "; nearest ppo_mini_batch_size that works: " + nearest_multiples(x.mini_batch_size, unit));
  uint64_t per_rank = mini / ranks;
  if (x.micro_batch_size > 0 && per_rank % x.micro_batch_size != 0)
    return refusal("mini-batch per rank " + text(x.mini_batch_size) + "*" + text(n) + "/" +
                   text(ranks) + " = " + text(per_rank) +
                   " is not a multiple of actor.ppo_micro_batch_size_per_gpu " +
                   text(x.micro_batch_size) + ": " + division(per_rank, x.micro_batch_size) +
                   "; nearest ppo_micro_batch_size_per_gpu that works: " +
                   nearest_divisors(per_rank, x.micro_batch_size));
  if (x.agent_workers > 0 && x.rollout_batch_size * n % x.agent_workers != 0)
    return refusal("train_batch_size * n = " + text(x.rollout_batch_size * n) +
                   " does not split over " + text(x.agent_workers) +
                   " agent workers: " + division(x.rollout_batch_size * n, x.agent_workers) +
                   "; nearest agent.num_workers that works: " +
                   nearest_divisors(x.rollout_batch_size * n, x.agent_workers));
  return {};
}

uint64_t quotient_up(uint64_t value, uint64_t by) { return (value + by - 1) / by; }

/// What all three have in common once the optimizer batch is known.
void derive_common(const BatchOptions& x, BatchPlan& plan) {
  plan.optimizer_steps_per_step =
      x.ppo_epochs * quotient_up(plan.trajectories, plan.optimizer_batch);
  plan.recompute_old_log_prob = plan.optimizer_steps_per_step > 1 || x.has_kl;
  plan.per_rank = plan.trajectories / x.train_cards;
  plan.mini_per_rank = plan.optimizer_batch / x.train_cards;
  if (x.log_prob_batch_size > 0)
    plan.log_prob_passes = quotient_up(plan.per_rank, x.log_prob_batch_size);
  if (x.infer_cards > 0) plan.replicas = x.infer_cards / (x.infer_tp * x.infer_pp);
  plan.optimizer_steps_total = plan.optimizer_steps_per_step * plan.steps;
}

void add(BatchPlan& plan, std::string name, uint64_t value, std::string arithmetic) {
  plan.numbers.push_back({std::move(name), value, std::move(arithmetic)});
}

void tell_tail(const BatchOptions& x, BatchPlan& plan) {
  if (plan.log_prob_passes > 0)
    add(plan, "log-prob passes per rank", plan.log_prob_passes,
        text(plan.per_rank) + " / " + text(x.log_prob_batch_size));
  if (plan.replicas > 0)
    add(plan, "rollout replicas", plan.replicas,
        text(x.infer_cards) + " cards / (TP " + text(x.infer_tp) + " * PP " + text(x.infer_pp) +
            ")");
  if (plan.steps > 0)
    add(plan, "optimizer steps of the run", plan.optimizer_steps_total,
        text(plan.steps) + " steps * " + text(plan.optimizer_steps_per_step));
  if (x.critic_batch == 0) return;
  add(plan, "critic's optimizer steps per step",
      x.critic_epochs * quotient_up(plan.trajectories, x.critic_batch),
      (x.critic_epochs > 1 ? text(x.critic_epochs) + " epochs * " : "") + text(plan.trajectories) +
          " / " + text(x.critic_batch) + " trajectories of one");
}

void tell_steps(const BatchOptions& x, BatchPlan& plan) {
  add(plan, "optimizer steps per step", plan.optimizer_steps_per_step,
      (x.ppo_epochs > 1 ? text(x.ppo_epochs) + " epochs * " : "") + text(plan.trajectories) +
          " / " + text(plan.optimizer_batch) +
          (plan.trajectories % plan.optimizer_batch == 0 ? "" : ", rounded up"));
}

BatchPlan plan_roll(const BatchOptions& x) {
  bool is_rlvr = x.kind == BatchKind::rlvr;
  BatchPlan plan;
  plan.groups = is_rlvr ? x.rollout_batch_size : x.rollout_batch_size / x.group_size;
  plan.trajectories = plan.groups * x.group_size;
  plan.micro_batch = x.per_device_train_batch_size;
  plan.accumulation = x.gradient_accumulation_steps;
  plan.optimizer_batch = plan.micro_batch * plan.accumulation * x.train_cards;
  plan.steps = x.max_steps;
  derive_common(x, plan);
  add(plan, "trajectories per step", plan.trajectories,
      text(plan.groups) + (is_rlvr ? " prompts * " : " groups * ") + text(x.group_size));
  add(plan, "trajectories per rank", plan.per_rank,
      text(plan.trajectories) + " / " + text(x.train_cards) + " ranks");
  add(plan, "optimizer batch", plan.optimizer_batch,
      "P*A*D = " + text(plan.micro_batch) + "*" + text(plan.accumulation) + "*" +
          text(x.train_cards));
  tell_steps(x, plan);
  if (!is_rlvr) {
    plan.waves = quotient_up(plan.groups, x.num_env_groups);
    add(plan, "waves of the environments", plan.waves,
        text(plan.groups) + " groups / " + text(x.num_env_groups) + " at once");
    plan.val_trajectories = x.val_batch_size;
    plan.val_groups = x.val_batch_size / x.val_group_size;
    if (x.val_batch_size > 0)
      add(plan, "validation trajectories", plan.val_trajectories,
          text(plan.val_groups) + " groups * " + text(x.val_group_size));
  }
  tell_tail(x, plan);
  return plan;
}

/// Steps 0 (if asked), every test_freq, and the last.
uint64_t validations(const BatchOptions& x, uint64_t steps) {
  if (x.test_freq == 0 || steps == 0) return 0;
  return (x.validates_first ? 1 : 0) + quotient_up(steps, x.test_freq);
}

void tell_verl_run(const BatchOptions& x, BatchPlan& plan) {
  if (x.dataset_rows > 0) {
    uint64_t per_epoch = x.dataset_rows / x.rollout_batch_size;
    if (x.max_steps == 0) {
      plan.steps = per_epoch * x.total_epochs;
      add(plan, "steps of the run", plan.steps,
          text(x.dataset_rows) + " rows / " + text(x.rollout_batch_size) +
              (x.total_epochs > 1 ? " * " + text(x.total_epochs) + " epochs" : ""));
    }
    add(plan, "rows dropped per epoch", x.dataset_rows % x.rollout_batch_size,
        division(x.dataset_rows, x.rollout_batch_size));
  }
  if (uint64_t count = validations(x, plan.steps); count > 0)
    add(plan, "validations", count,
        std::string(x.validates_first ? "step 0, " : "") + "every " + text(x.test_freq) + " of " +
            text(plan.steps) + " steps, and the last");
}

BatchPlan plan_verl(const BatchOptions& x) {
  BatchPlan plan;
  plan.groups = x.rollout_batch_size;
  plan.trajectories = x.rollout_batch_size * x.group_size;
  plan.optimizer_batch = x.mini_batch_size * x.group_size;
  plan.steps = x.max_steps;
  derive_common(x, plan);
  plan.micro_batch = x.micro_batch_size;
  plan.accumulation =
      x.micro_batch_size > 0 ? plan.mini_per_rank / x.micro_batch_size : plan.mini_per_rank;
  add(plan, "trajectories per step", plan.trajectories,
      text(x.rollout_batch_size) + " prompts * " + text(x.group_size));
  add(plan, "trajectories per rank", plan.per_rank,
      text(plan.trajectories) + " / " + text(x.train_cards) + " ranks");
  add(plan, "mini-batch per rank", plan.mini_per_rank,
      text(x.mini_batch_size) + " prompts * " + text(x.group_size) + " / " + text(x.train_cards));
  if (x.micro_batch_size > 0)
    add(plan, "gradient accumulation", plan.accumulation,
        text(plan.mini_per_rank) + " / micro " + text(x.micro_batch_size));
  tell_steps(x, plan);
  if (x.agent_workers > 0)
    add(plan, "trajectories per agent worker", plan.trajectories / x.agent_workers,
        text(plan.trajectories) + " / " + text(x.agent_workers));
  tell_verl_run(x, plan);
  plan.optimizer_steps_total = plan.optimizer_steps_per_step * plan.steps;
  tell_tail(x, plan);
  return plan;
}

}  // namespace

std::string nearest_multiples(uint64_t value, uint64_t unit) {
  uint64_t below = value / unit * unit;
  return (below > 0 ? text(below) + ", " : "") + text(below + unit);
}

std::string nearest_divisors(uint64_t value, uint64_t near,
                             const std::function<bool(uint64_t)>& fits) {
  uint64_t below = 0, above = 0;
  for (uint64_t x = std::min(near, value); x > 0 && below == 0; --x)
    if (value % x == 0 && fits(x)) below = x;
  for (uint64_t x = near + 1; x <= value && above == 0; ++x)
    if (value % x == 0 && fits(x)) above = x;
  if (below == 0) return above == 0 ? "" : text(above);
  return text(below) + (above == 0 ? "" : ", " + text(above));
}

namespace {

/// A step is one optimizer step over its rows: single answers, or pairs of them.
BatchPlan plan_sft(const BatchOptions& x) {
  const std::string rows = x.group_size == 2 ? "pairs" : "rows";
  const uint64_t per_card = x.per_device_train_batch_size * x.gradient_accumulation_steps;
  BatchPlan plan;
  plan.optimizer_steps_per_step = 1;
  plan.per_rank = plan.mini_per_rank = per_card;
  plan.micro_batch = x.per_device_train_batch_size;
  plan.accumulation = x.gradient_accumulation_steps;
  plan.groups = plan.optimizer_batch = per_card * x.train_cards;
  plan.trajectories = plan.groups * x.group_size;
  plan.steps = plan.optimizer_steps_total = x.max_steps;
  plan.numbers = {
      {rows + " per optimizer step", plan.optimizer_batch,
       text(x.per_device_train_batch_size) + " per_device_train_batch_size * " +
           text(x.gradient_accumulation_steps) + " gradient_accumulation_steps * " +
           text(x.train_cards) + (x.train_cards == 1 ? " train card" : " train cards")},
      {rows + " per card", per_card, "of it"},
  };
  if (plan.steps > 0) plan.numbers.push_back({"optimizer steps", plan.steps, "max_steps"});
  if (plan.steps > 0)
    plan.numbers.push_back({rows + " read", plan.steps * plan.optimizer_batch,
                            text(plan.steps) + " steps * " + text(plan.optimizer_batch)});
  return plan;
}

}  // namespace

Expected<BatchPlan> plan_batch(const BatchOptions& x) {
  COHORT_TRY(check_ranges(x));
  COHORT_TRY(check_replicas(x));
  if (x.kind == BatchKind::verl) {
    COHORT_TRY(check_verl(x));
    return plan_verl(x);
  }
  if (x.kind == BatchKind::sft) return plan_sft(x);
  const bool is_agentic = x.kind == BatchKind::agentic;
  if (is_agentic) COHORT_TRY(check_groups(x));
  COHORT_TRY(check_optimizer_batch(x, is_agentic ? 1 : x.group_size));
  if (is_agentic) COHORT_TRY(check_validation(x));
  return plan_roll(x);
}

}  // namespace cohort::plan
