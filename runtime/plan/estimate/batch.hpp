#pragma once
/// Batch algebra of agentic, rlvr and sft as ROLL counts, and of verl (docs/config.md). Pure. With
/// P = per_device_train_batch_size, A = gradient_accumulation_steps, D = data-parallel training
/// ranks, one optimizer step takes P*A*D trajectories.
///
/// BATCH-1: every trajectory of a step enters exactly one optimizer mini-batch per epoch: P*A*D
/// divides the trajectories of a step. The error names the nearest values that work.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::plan {

enum class BatchKind : uint8_t {
  agentic = 0,  // rollout_batch_size counts trajectories
  rlvr = 1,     // … counts prompts, each answered group_size times
  verl = 2,     // … is data.train_batch_size, prompts; mini- and micro-batches are given
  sft = 3,      // … follows: P*A*D rows, one optimizer step
};

struct BatchOptions {
  uint64_t rollout_batch_size = 0;  // trajectories (agentic) or prompts (rlvr, verl) per step
  uint64_t group_size = 1;          // trajectories that share a map or a prompt
  uint64_t num_env_groups = 1;      // agentic: groups that run at once
  uint64_t per_device_train_batch_size = 1, gradient_accumulation_steps = 1;  // not verl
  uint64_t train_cards = 1;                // D: data-parallel ranks (cards / (TP * PP * CP))
  uint64_t ppo_epochs = 1, max_steps = 1;  // 0: by epochs (verl, sft), or no end
  uint64_t val_batch_size = 0;             // 0 = no validation; agentic only
  uint64_t val_group_size = 1, val_num_env_groups = 1;
  bool has_kl = false;  // init_kl_coef > 0 or use_kl_loss: forces old log-probs and a reference
  BatchKind kind = BatchKind::agentic;
  bool is_evenly_cut =
      false;  // agentic: sizes that do not divide make optimizer batches of nearly one size

  uint64_t log_prob_batch_size = 0;                      // per rank and forward pass; 0: not given
  uint64_t infer_cards = 0, infer_tp = 1, infer_pp = 1;  // 0: no rollout cards

  // verl
  uint64_t mini_batch_size = 0;   // ppo_mini_batch_size, prompts per optimizer step
  uint64_t micro_batch_size = 0;  // ppo_micro_batch_size_per_gpu, trajectories; 0: dynamic
  uint64_t agent_workers = 0;     // 0: not checked
  uint64_t dataset_rows = 0;      // 0: not known
  uint64_t total_epochs = 1;
  uint64_t test_freq = 0;  // steps between validations; 0: none
  bool validates_first = true;

  uint64_t critic_batch = 0;  // trajectories of a critic's optimizer step; 0: there is no critic
  uint64_t critic_epochs = 1;
};

/// A derived number and how it came about, e.g. {"trajectories per step", 640, "128 prompts * 5"}.
struct PlanNumber {
  std::string name;
  uint64_t value = 0;
  std::string arithmetic;
  bool operator==(const PlanNumber&) const = default;
};

struct BatchPlan {
  uint64_t trajectories = 0, groups = 0;  // per step
  uint64_t optimizer_batch = 0;           // trajectories per optimizer step, P*A*D
  uint64_t optimizer_steps_per_step = 0;  // ppo_epochs included
  uint64_t optimizer_steps_total = 0;     // what the learning-rate schedule counts; 0: not known
  uint64_t waves = 0;                     // agentic: times each environment slot is used in a step
  uint64_t val_trajectories = 0, val_groups = 0;
  bool recompute_old_log_prob = false;         // more than one optimizer step per step, or KL
  uint64_t per_rank = 0, mini_per_rank = 0;    // trajectories
  uint64_t micro_batch = 0, accumulation = 0;  // trajectories; micro-batches per optimizer step
  uint64_t log_prob_passes = 0;                // per rank and step; 0: not known
  uint64_t replicas = 0;                       // rollout engines; 0: no rollout cards
  uint64_t steps = 0;                          // of the run; 0: not known
  std::vector<PlanNumber> numbers;             // all of it, in order, for people
};

/// Returns Errc::config with the arithmetic and the nearest values that work, e.g.
/// "rollout_batch_size 100 is not a multiple of P*A*D = 2*16*1 = 32 …: 100 = 3*32 + 4; nearest that
/// work: 96, 128".
Expected<BatchPlan> plan_batch(const BatchOptions& options);

/// Returns the multiples of `unit` around `value`, e.g. "96, 128"; never 0.
std::string nearest_multiples(uint64_t value, uint64_t unit);
/// Returns the divisors of `value` on both sides of `near` that `fits` takes, e.g. "10, 20"; empty
/// if value is 0.
std::string nearest_divisors(
    uint64_t value, uint64_t near,
    const std::function<bool(uint64_t)>& fits = [](uint64_t) { return true; });

}  // namespace cohort::plan
