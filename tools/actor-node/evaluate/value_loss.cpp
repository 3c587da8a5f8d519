/// {"cliprange_value": c or null, "loss_agg_mode": token-mean}; values, old_values (with a clip),
/// returns, mask [B][T] -> loss, grad_values [B][T], clipfrac (with a clip).
#include "algorithms/value_loss.hpp"

#include "tools/actor-node/evaluate/case_tensors.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {

Expected<Json> value_loss(Case& in) {
  algorithms::ValueLossOptions options;
  options.value_clip = in.maybe_number("cliprange_value");
  options.loss_agg = aggregation_of(in);
  const Array mask = in.array("mask", 2);
  const Array values = in.array_like("values", mask);
  algorithms::ValueLossInput input;
  input.values = leaf_of(in, values);
  input.returns = tensor_of(in, in.array_like("returns", mask));
  if (options.value_clip || in.has_input("old_values"))
    input.old_values = tensor_of(in, in.array_like("old_values", mask));
  COHORT_TRY(in.read());
  input.places = places_of(mask);
  const algorithms::ValueLoss loss = algorithms::value_loss(input, options, counts_of(mask));
  Json out{{"loss", in.answer(loss.total.item<double>())},
           {"grad_values", gradient_of(in, loss.total, input.values, mask)}};
  if (options.value_clip) out["clipfrac"] = in.answer(loss.numbers.at("critic/vf_clipfrac"));
  return out;
}

}  // namespace cohort::evaluate
