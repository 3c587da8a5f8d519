/// {"shift_mean"}; values, mask [B][T] -> values [B][T], 0 behind the mask.
#include <cmath>

#include "algorithms/advantage.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {

Expected<Json> whiten(Case& in) {
  const bool shift_mean = in.flag("shift_mean", true);
  Array values = in.array("values", 2);
  const Array mask = in.array_like("mask", values);
  for (size_t i = 0; i < mask.values.size(); ++i)
    if (mask.values[i] != 0 && !std::isfinite(values.values[i]))
      in.refuse("inputs: the value of token " + std::to_string(i) + " is not finite");
  COHORT_TRY(in.read());
  algorithms::whiten(values.values, packed_of(mask).mask, shift_mean);
  return Json{{"values", in.answer(values.values, values)}};
}

}  // namespace cohort::evaluate
