#pragma once
/// Batch algebra of an agentic run (ROLL, spec/roll.md 2.6). Pure. With P =
/// per_device_train_batch_size, A = gradient_accumulation_steps, D = training cards, one optimizer
/// step takes P*A*D trajectories.
///
/// BATCH-1: every trajectory of a step enters exactly one optimizer mini-batch per epoch: P*A*D
/// divides rollout_batch_size. Where ROLL duplicates or drops trajectories to get there
/// (batch_adjust_mode), we refuse, because duplicates bias the group statistics; the error names
/// the nearest values that work. We also differ in the schedule: ROLL floors twice ("div (P*A),
/// then div D"); with BATCH-1 both are exact.
#include <cstdint>

#include "runtime/base/error.hpp"

namespace cohort::plan {

struct BatchOptions {
  uint64_t rollout_batch_size = 0;  // trajectories per step
  uint64_t group_size = 1;          // trajectories that share a map
  uint64_t num_env_groups = 1;      // groups that run at once
  uint64_t per_device_train_batch_size = 1, gradient_accumulation_steps = 1, train_cards = 1;
  uint64_t ppo_epochs = 1, max_steps = 1;
  uint64_t val_batch_size = 0;  // 0 = no validation
  uint64_t val_group_size = 1, val_num_env_groups = 1;
  bool has_kl = false;  // init_kl_coef > 0 or use_kl_loss: forces old log-probs and a reference
};

struct BatchPlan {
  uint64_t trajectories = 0, groups = 0;  // per step
  uint64_t optimizer_batch = 0;           // trajectories per optimizer step, P*A*D
  uint64_t optimizer_steps_per_step = 0;  // ppo_epochs included
  uint64_t optimizer_steps_total = 0;     // what the learning-rate schedule counts
  uint64_t waves = 0;                     // times each environment slot is used in a step
  uint64_t val_trajectories = 0, val_groups = 0;
  bool recompute_old_log_prob = false;  // more than one optimizer step per step, or KL
};

/// Returns Errc::config with the arithmetic and the nearest values that work, e.g.
/// "rollout_batch_size 100 is not a multiple of P*A*D = 2*16*1 = 32 …: 100 = 3*32 + 4; nearest that
/// work: 96, 128".
Expected<BatchPlan> plan_batch(const BatchOptions& options);

/// [begin, end) positions, in collector order, of optimizer mini-batch `index` of one epoch.
struct MiniBatchRange {
  uint64_t begin = 0, end = 0;
};
MiniBatchRange mini_batch_range(const BatchPlan& plan, uint64_t index);

}  // namespace cohort::plan
