/// {"shift_mean"}; values, mask [B][T] -> values [B][T], 0 behind the mask.
#include "algorithms/advantage.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {

Expected<Json> whiten(Case& in) {
  const bool shift_mean = in.flag("shift_mean", true);
  Array values = in.array("values", 2);
  const Array mask = in.array_like("mask", values);
  COHORT_TRY(in.read());
  algorithms::whiten(values.values, packed_of(mask).mask, shift_mean);
  return Json{{"values", in.answer(values.values, values)}};
}

}  // namespace cohort::evaluate
