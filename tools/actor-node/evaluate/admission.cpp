/// Kinds verl_fully_async, areal, verl_v1 (its max_off_policy_threshold may be null: none),
/// prime_rl, roll_rlvr: integers in, integers out.
#include "runtime/plan/flow/admission.hpp"

#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {

Expected<Json> verl_fully_async(Case& in) {
  const plan::FullyAsyncAdmission rule{
      in.number("staleness_threshold"), in.integer("ppo_mini_batch_size"),
      in.integer("require_batches"), in.integer("trigger_parameter_sync_step"),
      in.integer("concurrent_samples_per_replica")};
  const int64_t active = in.integer_input("active"), queued = in.integer_input("queued");
  const int64_t replicas = in.integer_input("replicas");
  COHORT_TRY(in.read());
  const plan::FullyAsyncWindow window = plan::fully_async_window(rule, active, queued, replicas);
  return Json{{"required_samples", window.required},
              {"max_required_samples", window.samples_max},
              {"max_concurrent_samples", window.concurrent_max},
              {"counter_after_sync", window.counter}};
}

Expected<Json> areal(Case& in) {
  const plan::ArealAdmission rule{in.integer("max_head_offpolicyness"),
                                  in.integer("consumer_batch_size"),
                                  in.integer("max_concurrent_rollouts")};
  const int64_t version = in.integer_input("version"), running = in.integer_input("running");
  const int64_t accepted = in.integer_input("accepted");
  COHORT_TRY(in.read());
  return Json{{"capacity", plan::areal_capacity(rule, version, running, accepted)}};
}

Expected<Json> verl_v1(Case& in) {
  const std::optional<int64_t> threshold = in.integer_or_none("max_off_policy_threshold");
  const int64_t step = in.integer_input("global_step"), begun = in.integer_input("prompt_step");
  COHORT_TRY(in.read());
  const int64_t span = plan::off_policy_span(step, begun);
  return Json{{"span", span}, {"is_evicted", threshold && span > *threshold ? 1 : 0}};
}

Expected<Json> prime_rl(Case& in) {
  const int64_t steps_max = in.integer("max_off_policy_steps");
  const int64_t step = in.integer_input("step"), version = in.integer_input("dispatch_version");
  COHORT_TRY(in.read());
  const int64_t oldest = plan::oldest_fresh_version(step, steps_max);
  return Json{{"staleness", step - 1 - version},
              {"oldest_fresh_version", oldest},
              {"is_dropped", version < oldest ? 1 : 0}};
}

Expected<Json> roll_rlvr(Case& in) {
  const int64_t batch = in.integer("rollout_batch_size");
  const double ratio = in.number("async_generation_ratio");
  COHORT_TRY(in.read());
  const plan::ReplayAdmission found = plan::replay_admission(batch, ratio);
  return Json{{"extra_at_first_step", found.extra_at_first_step},
              {"oldest_start_step_lag", found.oldest_start_step_lag}};
}

}  // namespace cohort::evaluate
