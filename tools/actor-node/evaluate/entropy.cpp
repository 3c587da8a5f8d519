/// {"temperature": 1, "loss_agg_mode": token-mean}; logits [B][T][V], mask [B][T] -> entropy
/// [B][T], loss, grad_logits [B][T][V]. The trainer's function takes hidden states and a head; with
/// the identity as the head the hidden states are the logits.
#include "runtime/compute/model/ops.hpp"
#include "tools/actor-node/evaluate/case_tensors.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {

Expected<Json> entropy(Case& in) {
  const double temperature = in.number("temperature", 1.0);
  const algorithms::LossAgg agg = aggregation_of(in);
  const Array logits = in.array("logits", 3);
  const Array mask = in.array("mask", 2);
  if (mask.shape != std::vector<int64_t>{logits.shape[0], logits.shape[1]})
    in.refuse("inputs: 'mask' has not the rows and columns of 'logits'");
  if (logits.shape[2] < 1) in.refuse("inputs: 'logits' has an empty vocabulary");
  if (!(temperature > 0)) in.refuse("params: 'temperature' is not above 0");
  COHORT_TRY(in.read());
  const int64_t tokens = logits.shape[0] * logits.shape[1], words = logits.shape[2];
  const at::Tensor leaf = leaf_of(in, logits);
  const algorithms::TokenPlaces places = places_of(mask);
  const at::Tensor rows =
      algorithms::live(leaf.view({tokens, words}), places.mask.unsqueeze(1)) / temperature;
  const at::Tensor head = at::eye(words, rows.options().requires_grad(false));
  const at::Tensor target = at::zeros({tokens}, at::kInt);
  const at::Tensor found = algorithms::live(
      compute::ops::token_log_probs(rows, head, target, tokens).entropy, places.mask);
  const at::Tensor weights =
      algorithms::aggregation_weights(tokens, head.options(), places, agg, counts_of(mask));
  const at::Tensor loss = (weights * found).sum();
  return Json{{"entropy", json_of(in, found, mask)},
              {"loss", in.answer(loss.item<double>())},
              {"grad_logits", gradient_of(in, loss, leaf, logits)}};
}

}  // namespace cohort::evaluate
