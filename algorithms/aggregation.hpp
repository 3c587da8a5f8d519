#pragma once
/// From one number per token to one number per optimizer mini-batch, on tensors: the same for
/// policy and value losses.
/// ALG-3: the weights divide by counts of the whole mini-batch, which the caller hands in, so that
/// the sum over any split of it into micro-batches of whole sequences is the same number.
/// ALG-4: values at positions with mask 0, NaN included, reach neither a value nor a gradient.
#include <cstdint>

#include "runtime/catalog/catalog.hpp"
#include "runtime/tensor/torch.hpp"

namespace cohort::algorithms {

using catalog::LossAgg;

/// Counts of the optimizer mini-batch, the same for each of its micro-batches.
struct GlobalCounts {
  double tokens = 0;       // T: positions with mask 1
  double sequences = 0;    // S: sequences with such a position
  double norm_length = 1;  // L; used by the aggregations over a constant
  double rows = 0;         // sequences, those without such a position too; 0: as `sequences`
};

/// Which of the M positions of a micro-batch count, and whose they are.
struct TokenPlaces {
  at::Tensor mask;    // [M] bool, 1 = counts; undefined = all
  at::Tensor seq_id;  // [M] i64, sequence of the position in 0 .. seq_count-1
  int64_t seq_count = 0;
};

/// Returns x where mask is 1 and 0 elsewhere; where() and not a product, since NaN * 0 is NaN.
at::Tensor live(const at::Tensor& x, const at::Tensor& mask);

/// Returns w [M] of `options` with agg(x) = sum w x; 0 where masked.
at::Tensor aggregation_weights(int64_t size, const at::TensorOptions& options,
                               const TokenPlaces& places, LossAgg agg, const GlobalCounts& counts);

}  // namespace cohort::algorithms
