#include "algorithms/value_loss.hpp"

#include <fmt/format.h>

#include "runtime/base/check.hpp"

namespace cohort::algorithms {

using at::Tensor;

ValueLoss value_loss(const ValueLossInput& input, const ValueLossOptions& options,
                     const GlobalCounts& counts) {
  COHORT_CHECK(input.values.defined() && input.values.dim() == 1, "ALG-3: values must be [M]");
  COHORT_CHECK(input.returns.defined(), "ALG-3: returns are missing");
  COHORT_CHECK(input.old_values.defined() || !options.value_clip,
               "ALG-3: a value clip needs the old values");
  const int64_t size = input.values.size(0);
  for (const Tensor* x :
       {&input.old_values, &input.returns, &input.places.mask, &input.places.seq_id})
    COHORT_CHECK(!x->defined() || (x->dim() == 1 && x->size(0) == size),
                 fmt::format("ALG-3: a tensor of the micro-batch is not [{}]", size));
  TokenPlaces places = input.places;
  if (places.mask.defined()) places.mask = places.mask.to(at::kBool);
  const Tensor values = live(input.values, places.mask);
  const Tensor returns = live(input.returns, places.mask);
  const Tensor weights = aggregation_weights(size, values.options().requires_grad(false), places,
                                             options.loss_agg, counts);
  Tensor errors = (values - returns).square(), is_clipped;
  if (options.value_clip) {
    const Tensor old = live(input.old_values, places.mask);
    const Tensor near = at::clamp(values, old - *options.value_clip, old + *options.value_clip);
    const Tensor clipped = (near - returns).square();
    is_clipped = clipped.gt(errors);
    errors = at::max(errors, clipped);
  }
  ValueLoss result;
  result.total = 0.5 * (weights * errors).sum();
  const at::NoGradGuard no_grad;
  const double per_token = counts.tokens > 0 ? 1 / counts.tokens : 0;
  result.numbers.add("critic/vf_loss", result.total.item<double>());
  result.numbers.add("critic/vpred_mean", values.sum().item<double>() * per_token);
  if (is_clipped.defined())
    result.numbers.add("critic/vf_clipfrac", is_clipped.sum().item<double>() * per_token);
  return result;
}

}  // namespace cohort::algorithms
