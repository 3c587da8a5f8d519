#pragma once
/// The head of a student that learns the distribution of a teacher. Thread and errors as ops.hpp.
#include "runtime/compute/model/logit_divergence.hpp"
#include "runtime/compute/model/tied_table.hpp"

namespace cohort::compute::ops {

/// What a teacher makes of the student's tokens: its logits are h W^T. No gradient.
struct TeacherRows {
  at::Tensor h;     // [M, H'] behind the final norm
  at::Tensor head;  // [V', H']
};

struct TaughtLogProbs {
  at::Tensor logp;        // [M] f32, as token_log_probs()
  at::Tensor divergence;  // [M] f32, over the first min(V, V') entries of both models' logits
};

/// h: [M, H], weight: [V, H], target: [M] i32. Both models' logits exist for chunk_rows rows at a
/// time; the backward computes them again. `tied` as in tied_table.hpp.
TaughtLogProbs taught_log_probs(const at::Tensor& h, const at::Tensor& weight,
                                const at::Tensor& target, const TeacherRows& teacher,
                                const LogitDivergence& divergence, int64_t chunk_rows,
                                const TiedGradientRef& tied);

}  // namespace cohort::compute::ops
