#pragma once
/// What a loss sees of a micro-batch, and what it gives back. TrainEngine calls the factory once
/// per step and the function once per micro-batch, from several threads at a time: a LossFunction
/// keeps no state. Only positions whose response mask is 1 exist here: M of them, in sample order,
/// token order inside.
///
/// LOSS-1: the function divides by the counts of the whole step (StepCounts), never of its
/// micro-batch, so that the sum over micro-batches does not depend on how the step was split.
#include <cstdint>
#include <vector>

#include "runtime/compute/train/train_engine.hpp"
#include "runtime/tensor/torch.hpp"

namespace cohort::compute {

/// Counts over all samples of one optimizer step.
struct StepCounts {
  double tokens = 0;                     // response tokens
  double sequences = 0;                  // samples with at least one response token
  std::vector<int64_t> sequence_tokens;  // [samples] response tokens of each
};

struct MicroBatch {
  at::Tensor old_logp;    // [M] f32, undefined if the samples have none
  at::Tensor advantages;  // [M] f32, undefined if the samples have none
  at::Tensor ref_logp;    // [M] f32, undefined if the samples have none
  at::Tensor weights;     // [M] f32, undefined if the samples have none
  at::Tensor marks;       // [M] f32, undefined if the samples have none
  at::Tensor seq_id;      // [M] i64 index of the sample in the step
  at::Tensor segment_id;  // [M] i64 run of response tokens without a gap, counted from 0
  int64_t seq_count = 0;  // samples in the step
  int64_t segment_count = 0;
};

struct MicroOutputs {
  at::Tensor logp;  // [M] f32 log-probability of the token given its prefix, differentiable
  // [M] f32 of the distribution the token was drawn from [nats], differentiable; undefined with a
  // teacher
  at::Tensor entropy = {};
  // [M] f32 to the teacher's distribution (TrainEngine::learn_from), differentiable; else undefined
  at::Tensor divergence = {};
};

/// `total` is backpropagated. The numbers are this micro-batch's part of the step's.
struct MicroLoss {
  at::Tensor total;  // scalar f32
  Numbers numbers = {};
};

}  // namespace cohort::compute
