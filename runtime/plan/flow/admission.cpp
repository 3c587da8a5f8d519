#include "runtime/plan/flow/admission.hpp"

#include <algorithm>
#include <cmath>

namespace cohort::plan {

int64_t areal_capacity(const ArealAdmission& rule, int64_t version, int64_t running,
                       int64_t accepted) {
  const int64_t at_once = std::max<int64_t>(1, rule.max_concurrent) - running;
  const int64_t ahead =
      (rule.max_head_offpolicyness + version + 1) * rule.batch - (accepted + running);
  return std::min(at_once, ahead);
}

uint32_t groups_admitted(double depth, uint64_t step, int64_t served_step, uint32_t batch) {
  const int64_t behind = static_cast<int64_t>(step) - 1 - served_step;  // 0: the step that is next
  const auto ahead = static_cast<int64_t>(std::ceil(depth * batch));
  return static_cast<uint32_t>(std::clamp<int64_t>(ahead + (1 - behind) * batch, 0, batch));
}

FullyAsyncWindow fully_async_window(const FullyAsyncAdmission& rule, int64_t active, int64_t queued,
                                    int64_t replicas) {
  FullyAsyncWindow window;
  window.required = rule.mini_batch * rule.require_batches;
  // In verl's order of operations: the product is cut off to an integer.
  window.samples_max =
      static_cast<int64_t>(static_cast<double>(window.required) * (rule.staleness_threshold + 1) *
                           static_cast<double>(rule.steps_per_publish));
  window.concurrent_max = std::min(replicas * rule.concurrent_per_replica, window.samples_max);
  window.counter = active + queued;
  return window;
}

ReplayAdmission replay_admission(int64_t batch, double async_generation_ratio) {
  return {static_cast<int64_t>(std::ceil(static_cast<double>(batch) * async_generation_ratio)),
          static_cast<int64_t>(std::ceil(async_generation_ratio))};
}

}  // namespace cohort::plan
