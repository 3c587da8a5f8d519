/// values, returns, mask [B][T] -> explained_variance.
#include "algorithms/advantage.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {

Expected<Json> explained_variance(Case& in) {
  const Array mask = in.array("mask", 2);
  const Array values = in.array_like("values", mask), returns = in.array_like("returns", mask);
  COHORT_TRY(in.read());
  return Json{{"explained_variance", in.answer(algorithms::explained_variance(
                                         values.values, returns.values, packed_of(mask).mask))}};
}

}  // namespace cohort::evaluate
