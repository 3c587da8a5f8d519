#pragma once
/// A case's arrays as the tensors of one micro-batch, and what the kinds of losses share.
#include "algorithms/aggregation.hpp"
#include "tools/actor-node/evaluate/case.hpp"

namespace cohort::evaluate {

/// Returns [size of the array], f64 or f32 as the case asks; its gradient is `gradient_of`'s.
at::Tensor tensor_of(const Case& in, const Array& array);
at::Tensor leaf_of(const Case& in, const Array& array);
/// Returns the numbers of a tensor in the shape of `model`.
Json json_of(const Case& in, const at::Tensor& values, const Array& model);
/// Returns d total / d leaf in the shape of `model`, zeros where nothing came through.
Json gradient_of(const Case& in, const at::Tensor& total, const at::Tensor& leaf,
                 const Array& model);

/// Positions of a batch [rows][columns], row after row.
algorithms::TokenPlaces places_of(const Array& mask);
/// Counts of the batch as a whole; its norm_length is its columns.
algorithms::GlobalCounts counts_of(const Array& mask);
/// Which of the pairs [P] count, and how many do.
struct PairMask {
  at::Tensor mask;  // [P] bool; undefined = all
  double count = 0;
};
/// Reads the input "mask" [P]; without it all pairs count.
PairMask pair_mask_of(Case& in, size_t pairs);
/// Reads "loss_agg_mode" by its names in both dialects, verl's first unless "dialect" is roll: one
/// name of theirs means two things. Without it: token-mean, in ROLL's dialect seq-mean-token-mean;
/// TRL's depends on its loss_type, and is required.
algorithms::LossAgg aggregation_of(Case& in);

}  // namespace cohort::evaluate
