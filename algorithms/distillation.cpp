#include "algorithms/distillation.hpp"

#include <fmt/format.h>

#include <cmath>

#include "runtime/base/check.hpp"

namespace cohort::algorithms {
namespace {

using at::Tensor;

using catalog::DivergenceKind;

constexpr double k_js_floor = 1e-9;  // ROLL's

Tensor bools_of(const Tensor& mask) { return mask.defined() ? mask.to(at::kBool) : mask; }

/// The two distributions at each position, over the entries that count.
struct Pair {
  Tensor student, teacher;  // [M, K] logarithms
  Tensor dead;              // [M, K] 1: infinite on either side

  /// Sums terms [M, K] of entries that count.
  Tensor sum(const Tensor& terms) const { return terms.masked_fill(dead, 0.0).sum(-1); }
  /// Returns KL(p || q) [M] of logarithms.
  Tensor kl(const Tensor& log_p, const Tensor& log_q) const {
    return sum(log_p.exp() * (log_p - log_q));
  }
  /// Returns log(a q + b s) [M, K], a + b = 1.
  Tensor mix(double a, double b) const {
    if (a == 0) return student;
    if (b == 0) return teacher;
    return at::logaddexp(teacher + std::log(a), student + std::log(b));
  }
};

/// An infinite logit would make the gradient NaN, though the entry counts nothing.
Tensor log_probs(const Tensor& logits, const Tensor& dead) {
  return at::log_softmax(logits.masked_fill(dead, -1e30), -1);
}

Pair pair_of(Tensor student, Tensor teacher, const DistillationOptions& options) {
  student = student / options.temperature;
  teacher = teacher.detach() / options.temperature / options.teacher_temperature;
  if (options.topk > 0 && options.topk < teacher.size(1)) {
    const auto [best, index] = teacher.topk(options.topk, 1);
    teacher = best;
    student = student.gather(1, index);
  }
  const Tensor dead = student.isinf().logical_or(teacher.isinf());
  return {log_probs(student, dead), log_probs(teacher, dead), dead};
}

Tensor adaptive(const Pair& pair, double alpha) {
  Tensor head;
  {
    const at::NoGradGuard no_grad;
    const Tensor q = pair.teacher.exp();
    const auto [sorted, index] = q.sort(/*stable=*/true, -1, /*descending=*/false);
    const Tensor gap = (sorted - pair.student.exp().gather(1, index)).abs();
    const Tensor tail = sorted.cumsum(-1).le(alpha);
    const Tensor all = gap.sum(-1);
    head = gap.masked_fill(tail, 0.0).sum(-1) / all.masked_fill(all.eq(0), 1.0);
  }
  return head * pair.kl(pair.teacher, pair.student) +
         (1 - head) * pair.kl(pair.student, pair.teacher);
}

Tensor jensen_shannon(const Pair& pair) {
  const Tensor s = pair.student.exp(), q = pair.teacher.exp();
  const auto log = [](const Tensor& x) { return at::log(x + k_js_floor); };
  const Tensor mixed = log((s + q) / 2);
  return pair.sum(q * (log(q) - mixed) + s * (log(s) - mixed)) / 2;
}

Tensor divergence(const Pair& pair, const DistillationOptions& options) {
  const Tensor &s = pair.student, &q = pair.teacher;
  const double skew = options.skew_lambda, beta = options.beta;
  switch (options.kind) {
    case DivergenceKind::forward_kl:
      return pair.kl(q, s);
    case DivergenceKind::reverse_kl:
      return pair.kl(s, q);
    case DivergenceKind::adaptive_kl:
      return adaptive(pair, options.adaptive_alpha);
    case DivergenceKind::skewed_forward_kl:
      return pair.kl(q, pair.mix(skew, 1 - skew));
    case DivergenceKind::skewed_reverse_kl:
      return pair.kl(s, pair.mix(1 - skew, skew));
    case DivergenceKind::js_divergence:
      return jensen_shannon(pair);
    case DivergenceKind::gkd:
      break;
  }
  if (beta == 0) return pair.kl(q, s);
  if (beta == 1) return pair.kl(s, q);
  const Tensor mixed = pair.mix(beta, 1 - beta);
  return beta * pair.kl(q, mixed) + (1 - beta) * pair.kl(s, mixed);
}

Expected<void> require(bool holds, std::string_view name, double value, std::string_view rule) {
  if (holds) return {};
  return Error{Errc::invalid_argument, fmt::format("{} is {}; it must be {}", name, value, rule)};
}

bool is_share(double x) { return x >= 0 && x <= 1; }
bool is_temperature(double x) { return x > 0 && std::isfinite(x); }

void require_valid(const DistillationOptions& options) {
  const auto checked = check_distillation(options);
  COHORT_CHECK(checked.has_value(), checked ? "" : checked.error().detail);
}

}  // namespace

Expected<void> check_distillation(const DistillationOptions& options) {
  const DistillationOptions& x = options;
  COHORT_TRY(require(is_share(x.beta), "beta", x.beta, "in [0, 1]"));
  COHORT_TRY(require(is_share(x.adaptive_alpha), "adaptive_alpha", x.adaptive_alpha, "in [0, 1]"));
  COHORT_TRY(require(is_share(x.skew_lambda), "skew_lambda", x.skew_lambda, "in [0, 1]"));
  COHORT_TRY(require(is_temperature(x.temperature), "temperature", x.temperature, "> 0"));
  COHORT_TRY(require(is_temperature(x.teacher_temperature), "teacher_temperature",
                     x.teacher_temperature, "> 0"));
  return require(x.topk >= 0, "topk", static_cast<double>(x.topk), ">= 0");
}

Tensor token_divergence(const Tensor& student_logits, const Tensor& teacher_logits,
                        const DistillationOptions& options) {
  require_valid(options);
  COHORT_CHECK(student_logits.dim() == 2 && teacher_logits.sizes() == student_logits.sizes(),
               "ALG-3: the logits of student and teacher must be [M, V]");
  return divergence(pair_of(student_logits, teacher_logits, options), options);
}

DistillationLoss distillation_loss(const DistillationInput& input,
                                   const DistillationOptions& options, const GlobalCounts& counts) {
  require_valid(options);
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
  const Tensor losses = token_divergence(live(input.student_logits, rows),
                                         live(input.teacher_logits.detach(), rows), options);
  const Tensor weights = aggregation_weights(size, losses.options().requires_grad(false), places,
                                             LossAgg::token_mean, counts);
  DistillationLoss result;
  result.total = (weights * losses).sum();
  result.numbers.add("distillation/loss", result.total.item<double>());
  return result;
}

}  // namespace cohort::algorithms
