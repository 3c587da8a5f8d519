#include "runtime/plan/batch.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

namespace cohort::plan {
namespace {

/// Keeps every product below in 64 bits.
constexpr uint64_t k_max_count = uint64_t{1} << 20;

std::string text(uint64_t value) { return std::to_string(value); }

/// Returns "x = a*b + r".
std::string division(uint64_t value, uint64_t by) {
  return text(value) + " = " + text(value / by) + "*" + text(by) + " + " + text(value % by);
}

/// Returns the multiples of `unit` around `value`, e.g. "96, 128"; never 0.
std::string nearest_multiples(uint64_t value, uint64_t unit) {
  uint64_t below = value / unit * unit;
  return (below > 0 ? text(below) + ", " : "") + text(below + unit);
}

/// Returns the divisors of `value` on both sides of `near`, e.g. "10, 20"; empty if value is 0.
std::string nearest_divisors(uint64_t value, uint64_t near) {
  uint64_t below = 0, above = 0;
  for (uint64_t x = near; x > 0 && below == 0; --x)
    if (value % x == 0) below = x;
  for (uint64_t x = near + 1; x <= value && above == 0; ++x)
    if (value % x == 0) above = x;
  if (below == 0) return above == 0 ? "" : text(above);
  return text(below) + (above == 0 ? "" : ", " + text(above));
}

Expected<void> check_ranges(const BatchOptions& x) {
  for (auto [name, value] : std::initializer_list<std::pair<const char*, uint64_t>>{
           {"rollout_batch_size", x.rollout_batch_size},
           {"group_size", x.group_size},
           {"num_env_groups", x.num_env_groups},
           {"per_device_train_batch_size", x.per_device_train_batch_size},
           {"gradient_accumulation_steps", x.gradient_accumulation_steps},
           {"train cards", x.train_cards},
           {"ppo_epochs", x.ppo_epochs},
           {"max_steps", x.max_steps},
           {"validation group_size", x.val_group_size},
           {"validation num_env_groups", x.val_num_env_groups}}) {
    if (value == 0) return Error{Errc::config, "batch: " + std::string(name) + " is 0"};
    if (value > k_max_count)
      return Error{Errc::config, "batch: " + std::string(name) + " " + text(value) +
                                     " is over the bound of " + text(k_max_count)};
  }
  if (x.val_batch_size > k_max_count)
    return Error{Errc::config, "batch: val_batch_size " + text(x.val_batch_size) +
                                   " is over the bound of " + text(k_max_count)};
  uint64_t batch = x.per_device_train_batch_size * x.gradient_accumulation_steps * x.train_cards;
  if (batch > k_max_count)
    return Error{Errc::config, "batch: P*A*D = " + text(x.per_device_train_batch_size) + "*" +
                                   text(x.gradient_accumulation_steps) + "*" + text(x.train_cards) +
                                   " = " + text(batch) + " is over the bound of " +
                                   text(k_max_count)};
  return {};
}

Expected<void> check_groups(const BatchOptions& x) {
  if (x.rollout_batch_size % x.group_size == 0) return {};
  return Error{
      Errc::config,
      "batch: rollout_batch_size " + text(x.rollout_batch_size) +
          " is not a multiple of group_size: " + division(x.rollout_batch_size, x.group_size) +
          "; nearest rollout_batch_size that works: " +
          nearest_multiples(x.rollout_batch_size, x.group_size) +
          "; nearest group_size: " + nearest_divisors(x.rollout_batch_size, x.group_size)};
}

/// BATCH-1.
Expected<void> check_optimizer_batch(const BatchOptions& x) {
  uint64_t per_pass = x.per_device_train_batch_size * x.train_cards;
  uint64_t batch = per_pass * x.gradient_accumulation_steps;
  if (x.rollout_batch_size % batch == 0) return {};
  std::string detail =
      "batch: rollout_batch_size " + text(x.rollout_batch_size) +
      " is not a multiple of P*A*D = " + text(x.per_device_train_batch_size) + "*" +
      text(x.gradient_accumulation_steps) + "*" + text(x.train_cards) + " = " + text(batch) +
      " (per_device_train_batch_size * gradient_accumulation_steps * train cards): " +
      division(x.rollout_batch_size, batch) + "; nearest rollout_batch_size that works: " +
      nearest_multiples(x.rollout_batch_size, std::lcm(batch, x.group_size));
  if (x.rollout_batch_size % per_pass == 0)
    detail += "; nearest gradient_accumulation_steps: " +
              nearest_divisors(x.rollout_batch_size / per_pass, x.gradient_accumulation_steps);
  return Error{Errc::config, detail};
}

Expected<void> check_validation(const BatchOptions& x) {
  uint64_t unit = x.val_group_size * x.val_num_env_groups;
  if (x.val_batch_size % unit == 0) return {};
  return Error{Errc::config, "batch: val_batch_size " + text(x.val_batch_size) +
                                 " is not a multiple of validation num_env_groups*group_size = " +
                                 text(x.val_num_env_groups) + "*" + text(x.val_group_size) + " = " +
                                 text(unit) + ": " + division(x.val_batch_size, unit) +
                                 "; nearest val_batch_size that works: " +
                                 nearest_multiples(x.val_batch_size, unit)};
}

}  // namespace

Expected<BatchPlan> plan_batch(const BatchOptions& x) {
  COHORT_TRY(check_ranges(x));
  COHORT_TRY(check_groups(x));
  COHORT_TRY(check_optimizer_batch(x));
  COHORT_TRY(check_validation(x));
  BatchPlan plan;
  plan.trajectories = x.rollout_batch_size;
  plan.groups = x.rollout_batch_size / x.group_size;
  plan.optimizer_batch =
      x.per_device_train_batch_size * x.gradient_accumulation_steps * x.train_cards;
  plan.optimizer_steps_per_step = x.ppo_epochs * (x.rollout_batch_size / plan.optimizer_batch);
  plan.optimizer_steps_total = plan.optimizer_steps_per_step * x.max_steps;
  plan.waves = (plan.groups + x.num_env_groups - 1) / x.num_env_groups;
  plan.val_trajectories = x.val_batch_size;
  plan.val_groups = x.val_batch_size / x.val_group_size;
  plan.recompute_old_log_prob = plan.optimizer_steps_per_step > 1 || x.has_kl;
  return plan;
}

MiniBatchRange mini_batch_range(const BatchPlan& plan, uint64_t index) {
  COHORT_CHECK((index + 1) * plan.optimizer_batch <= plan.trajectories,
               "BATCH-1: there is no mini-batch " + std::to_string(index));
  return {index * plan.optimizer_batch, (index + 1) * plan.optimizer_batch};
}

}  // namespace cohort::plan
