#pragma once
/// A student learns the distribution of a teacher (pipeline distill, docs/distillation.md). No
/// state; a call runs on the caller's thread under its autograd mode, in the dtype of its input
/// (f32 or f64).
///
/// With s = softmax(student / T), q = softmax(teacher / (T T_q)) of the logits at a position, both
/// over the `topk` entries that the teacher likes best (0: over all), per token:
///   forward_kl         KL(q || s): the student covers all of the teacher
///   reverse_kl         KL(s || q): the student keeps to what the teacher likes
///   adaptive_kl        w KL(q || s) + (1 - w) KL(s || q), w = h / (h + t): h and t add |q - s|
///                      over the teacher's head and its tail, the least likely entries that have
///                      `adaptive_alpha` of q together (arXiv 2404.02657); no gradient through w
///   skewed_forward_kl  KL(q || l q + (1 - l) s), l = `skew_lambda` (arXiv 2402.03898)
///   skewed_reverse_kl  KL(s || (1 - l) q + l s)
///   js_divergence      (KL(q || m) + KL(s || m)) / 2, m = (s + q) / 2; each logarithm is of its
///                      argument + 1e-9, as ROLL's
///   gkd                b KL(q || m) + (1 - b) KL(s || m), m = b q + (1 - b) s, b = `beta`; at
///                      b = 0 forward_kl, at 1 reverse_kl (arXiv 2306.13649, TRL), which are not
///                      the limits of the middle: that goes to 0 at both ends
/// The first six are ROLL's kd_objective. No factor T^2. Where both distributions are equal
/// adaptive_kl is 0, in ROLL 0/0.
/// From samples a student learns by a policy loss instead (teacher.hpp).
/// ALG-3 and ALG-4 hold as for policy losses (aggregation.hpp).
#include "algorithms/aggregation.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/numbers.hpp"
#include "runtime/catalog/distillation_kinds.hpp"

namespace cohort::algorithms {

struct DistillationOptions {
  catalog::DivergenceKind kind = catalog::DivergenceKind::forward_kl;
  double temperature = 1;          // T > 0
  double teacher_temperature = 1;  // T_q > 0
  int64_t topk = 0;                // >= 0
  double adaptive_alpha = 0.5;     // in [0, 1]
  double skew_lambda = 0.1;        // in [0, 1]
  double beta = 0.5;               // in [0, 1]
};

/// Returns Errc::invalid_argument, naming the member that is out of range.
Expected<void> check_distillation(const DistillationOptions& options);

/// Returns the divergence of each position [M], differentiable in the student. Both [M, V]; an
/// entry that is infinite on either side counts nothing. COHORT_CHECK on shapes and on options that
/// check_distillation refuses. May throw c10::Error, which the caller's folder catches.
at::Tensor token_divergence(const at::Tensor& student_logits, const at::Tensor& teacher_logits,
                            const DistillationOptions& options);

/// One micro-batch: M positions, V entries of the vocabulary that both models share. Logits are
/// finite where mask is 1.
struct DistillationInput {
  at::Tensor student_logits;  // [M, V] carries the gradient
  at::Tensor teacher_logits;  // [M, V] likewise without
  at::Tensor mask;            // [M] bool or u8, 1 = counts; undefined = all
};

/// numbers: distillation/loss.
struct DistillationLoss {
  at::Tensor total;  // scalar; backward through it
  Numbers numbers;
};

/// Returns the share of this micro-batch in the mean over counted tokens. Errors as above.
DistillationLoss distillation_loss(const DistillationInput& input,
                                   const DistillationOptions& options, const GlobalCounts& counts);

}  // namespace cohort::algorithms
