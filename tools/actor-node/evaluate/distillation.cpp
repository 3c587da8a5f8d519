/// {"beta", "temperature": 1} (TRL's gkd), or ROLL's {"kd_objective", "kd_temperature": 1,
/// "teacher_temperature": 1, "logits_topk": 0, "adaptive_kl_alpha": 0.5, "skew_lambda": 0.1};
/// student_logits, teacher_logits [B][T][V], mask [B][T] -> loss,
/// grad_student_logits [B][T][V].
#include "algorithms/distillation.hpp"

#include <algorithm>

#include "runtime/catalog/catalog.hpp"
#include "tools/actor-node/evaluate/case_tensors.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {
namespace {

using catalog::DivergenceKind;

/// In the order of DivergenceKind; gkd is the last.
std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const std::string_view name : catalog::words(names_of(DivergenceKind{})))
    names.emplace_back(name);
  return names;
}

}  // namespace

Expected<Json> distillation(Case& in) {
  algorithms::DistillationOptions options;
  const std::vector<std::string> kinds = kind_names();
  const std::string kind = in.choice("kd_objective", kinds, kinds.back());
  options.kind = static_cast<DivergenceKind>(std::ranges::find(kinds, kind) - kinds.begin());
  const bool is_gkd = options.kind == DivergenceKind::gkd;
  if (is_gkd) options.beta = in.number("beta");
  options.temperature = in.number(is_gkd ? "temperature" : "kd_temperature", 1);
  options.teacher_temperature = in.number("teacher_temperature", 1);
  options.topk = in.integer("logits_topk", 0);
  options.adaptive_alpha = in.number("adaptive_kl_alpha", options.adaptive_alpha);
  options.skew_lambda = in.number("skew_lambda", options.skew_lambda);
  if (auto checked = algorithms::check_distillation(options); !checked)
    in.refuse("params: " + checked.error().detail);
  const Array mask = in.array("mask", 2);
  const Array student = in.array("student_logits", 3);
  const Array teacher = in.array_like("teacher_logits", student);
  if (student.shape[0] != mask.shape[0] || student.shape[1] != mask.shape[1])
    in.refuse("inputs: student_logits must be [B][T][V] beside a mask [B][T]");
  if (student.shape[2] < 1) in.refuse("inputs: 'student_logits' has an empty vocabulary");
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
