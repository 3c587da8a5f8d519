/// {"center_rewards_coefficient": 0}; chosen, rejected [P], scores of the answers; optionally
/// margin [P], mask [P] of the pairs -> loss, accuracy, grad_chosen, grad_rejected [P].
#include "algorithms/preference.hpp"
#include "tools/actor-node/evaluate/case_tensors.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {

Expected<Json> reward_model(Case& in) {
  const double center_coef = in.number("center_rewards_coefficient", 0);
  const Array chosen = in.array("chosen", 1);
  algorithms::RewardModelInput input;
  input.chosen = leaf_of(in, chosen);
  input.rejected = leaf_of(in, in.array_like("rejected", chosen));
  if (in.has_input("margin")) input.margin = tensor_of(in, in.array_like("margin", chosen));
  const PairMask pairs = pair_mask_of(in, chosen.rows());
  input.mask = pairs.mask;
  COHORT_TRY(in.read());
  const algorithms::PairLoss loss = algorithms::reward_model_loss(input, center_coef, pairs.count);
  return Json{{"loss", in.answer(loss.total.item<double>())},
              {"accuracy", in.answer(loss.numbers.at("reward_model/accuracy"))},
              {"grad_chosen", gradient_of(in, loss.total, input.chosen, chosen)},
              {"grad_rejected", gradient_of(in, loss.total, input.rejected, chosen)}};
}

}  // namespace cohort::evaluate
