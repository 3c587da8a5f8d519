/// {"coef": 1}; sampled_log_probs, teacher_log_probs, optionally task_advantages, mask [B][T] ->
/// pure: the advantages of distillation alone; mixed (with task_advantages): those of the task plus
/// coef times these [B][T].
#include "algorithms/distillation.hpp"
#include "tools/actor-node/evaluate/case_tensors.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {

Expected<Json> opd(Case& in) {
  const double coef = in.number("coef", 1);
  const Array mask = in.array("mask", 2);
  algorithms::DistillationAdvantageInput input;
  input.logp = tensor_of(in, in.array_like("sampled_log_probs", mask));
  input.teacher_logp = tensor_of(in, in.array_like("teacher_log_probs", mask));
  at::Tensor task;
  if (in.has_input("task_advantages")) task = tensor_of(in, in.array_like("task_advantages", mask));
  input.mask = places_of(mask).mask;
  COHORT_TRY(in.read());
  Json out{{"pure", json_of(in, algorithms::distillation_advantages(input, 1), mask)}};
  if (task.defined()) {
    input.task_advantages = task;
    out["mixed"] = json_of(in, algorithms::distillation_advantages(input, coef), mask);
  }
  return out;
}

}  // namespace cohort::evaluate
