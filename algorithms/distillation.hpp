#pragma once
/// A student learns the distribution of a teacher. No pipeline calls these functions yet;
/// `actor-node evaluate` does. No state; a call runs on the caller's thread under its autograd
/// mode, in the dtype of its input (f32 or f64).
/// From logits (GKD, arXiv 2306.13649), with s and q the distributions of
/// student and teacher at a position, each softmax(logits / temperature):
///   beta = 0        KL(q || s), forward: the student covers all of the teacher
///   beta = 1        KL(s || q), reverse: the student keeps to what the teacher likes
///   between         beta KL(q || m) + (1 - beta) KL(s || m),  m = beta q + (1 - beta) s
/// The loss is the mean over the counted tokens, as in TRL; no factor temperature^2. The two ends
/// are not the limits of the middle, which goes to 0 at both.
/// From samples (on-policy distillation): a policy loss whose advantage per token is the sampled
/// token's teacher - student log-probability, the estimate k1 of -KL(s || q) with discount 0.
/// ALG-3 and ALG-4 hold as for policy losses (aggregation.hpp).
#include "algorithms/aggregation.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/numbers.hpp"

namespace cohort::algorithms {

struct DistillationOptions {
  double beta = 0.5;       // in [0, 1]; TRL's gkd beta
  double temperature = 1;  // > 0, of both
};

/// Returns Errc::invalid_argument, naming the member that is out of range.
Expected<void> check_distillation(const DistillationOptions& options);

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

/// Returns the share of this micro-batch. COHORT_CHECK on shapes and on options that
/// check_distillation refuses. May throw c10::Error, which the caller's folder catches.
DistillationLoss distillation_loss(const DistillationInput& input,
                                   const DistillationOptions& options, const GlobalCounts& counts);

}  // namespace cohort::algorithms
