/// {"beta", "temperature": 1}; student_logits, teacher_logits [B][T][V], mask [B][T] -> loss,
/// grad_student_logits [B][T][V].
#include "algorithms/distillation.hpp"

#include "tools/actor-node/evaluate/case_tensors.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {

Expected<Json> distillation(Case& in) {
  const algorithms::DistillationOptions options{in.number("beta"), in.number("temperature", 1)};
  if (auto checked = algorithms::check_distillation(options); !checked)
    in.refuse("params: " + checked.error().detail);
  const Array mask = in.array("mask", 2);
  const Array student = in.array("student_logits", 3);
  const Array teacher = in.array_like("teacher_logits", student);
  if (student.shape[0] != mask.shape[0] || student.shape[1] != mask.shape[1])
    in.refuse("inputs: student_logits must be [B][T][V] beside a mask [B][T]");
  COHORT_TRY(in.read());
  const at::Tensor leaf = leaf_of(in, student);
  const std::vector<int64_t> sizes{student.shape[0] * student.shape[1], student.shape[2]};
  const algorithms::DistillationLoss loss = algorithms::distillation_loss(
      {leaf.view(sizes), tensor_of(in, teacher).view(sizes), places_of(mask).mask}, options,
      counts_of(mask));
  return Json{{"loss", in.answer(loss.total.item<double>())},
              {"grad_student_logits", gradient_of(in, loss.total, leaf, student)}};
}

}  // namespace cohort::evaluate
