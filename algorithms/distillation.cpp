#include "algorithms/distillation.hpp"

#include <fmt/format.h>

#include <cmath>

#include "runtime/base/check.hpp"

namespace cohort::algorithms {
namespace {

using at::Tensor;

Tensor bools_of(const Tensor& mask) { return mask.defined() ? mask.to(at::kBool) : mask; }

/// Returns [M], KL(p || q) of the distributions with these log-probabilities [M, V].
Tensor divergence(const Tensor& log_p, const Tensor& log_q) {
  return (log_p.exp() * (log_p - log_q)).sum(-1);
}

/// Returns [M], the loss of each position.
Tensor losses_of_logits(const Tensor& student, const Tensor& teacher, double beta) {
  if (beta == 0) return divergence(teacher, student);
  if (beta == 1) return divergence(student, teacher);
  const Tensor mix = at::logaddexp(teacher + std::log(beta), student + std::log1p(-beta));
  return beta * divergence(teacher, mix) + (1 - beta) * divergence(student, mix);
}

}  // namespace

Expected<void> check_distillation(const DistillationOptions& options) {
  if (!(options.beta >= 0 && options.beta <= 1))
    return Error{Errc::invalid_argument,
                 fmt::format("beta is {}; it must be in [0, 1]", options.beta)};
  if (!(options.temperature > 0 && std::isfinite(options.temperature)))
    return Error{Errc::invalid_argument,
                 fmt::format("temperature is {}; it must be > 0", options.temperature)};
  return {};
}

DistillationLoss distillation_loss(const DistillationInput& input,
                                   const DistillationOptions& options, const GlobalCounts& counts) {
  const auto checked = check_distillation(options);
  COHORT_CHECK(checked.has_value(), checked ? "" : checked.error().detail);
  COHORT_CHECK(input.student_logits.defined() && input.student_logits.dim() == 2,
               "ALG-3: student_logits must be [M, V]");
  COHORT_CHECK(input.teacher_logits.defined() &&
                   input.teacher_logits.sizes() == input.student_logits.sizes(),
               "ALG-3: teacher_logits must have the shape of student_logits");
  const int64_t size = input.student_logits.size(0);
  COHORT_CHECK(!input.mask.defined() || (input.mask.dim() == 1 && input.mask.size(0) == size),
               fmt::format("ALG-3: the mask of the micro-batch is not [{}]", size));
  const TokenPlaces places{bools_of(input.mask), {}, 0};
  const Tensor rows = places.mask.defined() ? places.mask.unsqueeze(1) : places.mask;
  auto log_probs = [&](const Tensor& logits) {
    return at::log_softmax(live(logits, rows) / options.temperature, -1);
  };
  const Tensor losses = losses_of_logits(log_probs(input.student_logits),
                                         log_probs(input.teacher_logits.detach()), options.beta);
  const Tensor weights = aggregation_weights(size, losses.options().requires_grad(false), places,
                                             LossAgg::token_mean, counts);
  DistillationLoss result;
  result.total = (weights * losses).sum();
  result.numbers.add("distillation/loss", result.total.item<double>());
  return result;
}

}  // namespace cohort::algorithms
