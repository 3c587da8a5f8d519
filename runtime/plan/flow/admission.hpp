#pragma once
/// How far ahead of training other systems let generation run, as formulas. Pure. A version counts
/// publishes; a step, a running and an accepted number count groups or samples as the system does.
#include <cstdint>

namespace cohort::plan {

/// AReaL: groups that may start now; negative when more are under way than allowed.
///   min(max(1, max_concurrent) - running,
///       (max_head_offpolicyness + version + 1) batch - (accepted + running))
struct ArealAdmission {
  int64_t max_head_offpolicyness = 0;  // [versions]; 0: generation and training take turns
  int64_t batch = 1;                   // groups of one optimizer step
  int64_t max_concurrent = 1;
};
int64_t areal_capacity(const ArealAdmission& rule, int64_t version, int64_t running,
                       int64_t accepted);

/// Cohort's fully_async: groups of step `step` that may have been started while the policy of
/// `served_step` is served, the first ones of the step. AReaL's capacity without its limit on
/// concurrency, with a depth that need not be whole, for groups that start in order:
///   clamp(ceil((depth + served_step + 1) batch) - (step - 1) batch, 0, batch)
/// A token of step s is sampled only while s - 1 - served_step <= ceil(depth): FLOW-3.
/// REQUIRES: step >= 1. `depth`: [steps]; `batch`: groups of a step.
uint32_t groups_admitted(double depth, uint64_t step, int64_t served_step, uint32_t batch);

/// verl's fully_async: how many samples may start between two publishes. The window's counter
/// begins at what is under way or queued; it bounds how many, not how old.
struct FullyAsyncAdmission {
  double staleness_threshold = 0;
  int64_t mini_batch = 1;         // ppo_mini_batch_size
  int64_t require_batches = 1;    // mini-batches of one update
  int64_t steps_per_publish = 1;  // trigger_parameter_sync_step
  int64_t concurrent_per_replica = 1;
};
struct FullyAsyncWindow {
  int64_t required = 0;        // samples of one update: mini_batch require_batches
  int64_t samples_max = 0;     // int(required (staleness_threshold + 1) steps_per_publish)
  int64_t concurrent_max = 0;  // min(replicas concurrent_per_replica, samples_max)
  int64_t counter = 0;         // at the window's begin: active + queued
};
FullyAsyncWindow fully_async_window(const FullyAsyncAdmission& rule, int64_t active, int64_t queued,
                                    int64_t replicas);

/// verl v1: versions that a prompt of step `prompt_step` spans at step `step`; a finished group is
/// evicted when the span exceeds max_off_policy_threshold.
inline int64_t off_policy_span(int64_t step, int64_t prompt_step) { return step - prompt_step + 1; }

/// prime-rl: the oldest dispatch version that step `step` may train on; staleness is (step - 1) -
/// version.
inline int64_t oldest_fresh_version(int64_t step, int64_t max_off_policy_steps) {
  return step - 1 - max_off_policy_steps;
}

/// ROLL's rlvr: what async_generation_ratio lets in.
struct ReplayAdmission {
  int64_t extra_at_first_step = 0;    // prompts beyond the batch: ceil(batch ratio)
  int64_t oldest_start_step_lag = 0;  // steps after which a prompt is aborted: ceil(ratio)
};
ReplayAdmission replay_admission(int64_t batch, double async_generation_ratio);

}  // namespace cohort::plan
