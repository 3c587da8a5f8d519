#include "algorithms/aggregation.hpp"

#include "runtime/base/check.hpp"

namespace cohort::algorithms {

using at::Tensor;

Tensor live(const Tensor& x, const Tensor& mask) {
  return mask.defined() ? at::where(mask, x, at::zeros({}, x.options())) : x;
}

Tensor aggregation_weights(int64_t size, const at::TensorOptions& options,
                           const TokenPlaces& places, LossAgg agg, const GlobalCounts& counts) {
  Tensor ones = live(at::ones({size}, options), places.mask);
  auto over = [](double count) { return count > 0 ? 1 / count : 0; };
  switch (agg) {
    case LossAgg::token_mean:
      return ones * over(counts.tokens);
    case LossAgg::seq_mean_token_sum:
      return ones * over(counts.sequences);
    case LossAgg::seq_mean_token_sum_norm:
      return ones * over(counts.norm_length);
    case LossAgg::token_sum:
      return ones;
    case LossAgg::seq_mean_token_constant:
      return ones * (over(counts.norm_length) * over(counts.sequences));
    case LossAgg::seq_mean_token_mean:
      break;
  }
  COHORT_CHECK(places.seq_id.defined(), "ALG-3: seq-mean-token-mean needs seq_id");
  Tensor per_sequence = at::zeros({places.seq_count}, options).index_add(0, places.seq_id, ones);
  Tensor per_token = per_sequence.index_select(0, places.seq_id).clamp_min(1);
  return ones / per_token * over(counts.sequences);
}

}  // namespace cohort::algorithms
