/// {"loss": sigmoid, robust, hinge, ipo or simpo, "beta", "label_smoothing": 0, "length": sum or
/// mean (ipo's trap; simpo: mean), "gamma_beta_ratio" or TRL's "simpo_gamma" = beta times it
/// (simpo)}; policy_chosen, policy_rejected, but for simpo ref_chosen and ref_rejected, with means
/// length_chosen and length_rejected [P], sums over an answer's tokens; optionally mask [P] of the
/// pairs -> loss, accuracy, reward_chosen, reward_rejected, grad_policy_chosen,
/// grad_policy_rejected [P].
/// With mask_chosen and mask_rejected [P][T] policy_*, ref_* and their gradients are [P][T], one
/// log-probability per token, and the lengths are those of the masks.
#include "algorithms/preference.hpp"

#include "tools/actor-node/evaluate/case_tensors.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {
namespace {

using algorithms::AnswerScale;
using algorithms::PreferenceKind;

algorithms::PreferenceOptions preference_options_of(Case& in) {
  const std::vector<std::string> kinds{"sigmoid", "robust", "hinge", "ipo", "simpo"};
  const std::string kind = in.choice("loss", kinds);
  algorithms::PreferenceOptions options;
  for (size_t i = 0; i < kinds.size(); ++i)  // in the order of PreferenceKind
    if (kinds[i] == kind) options.kind = static_cast<PreferenceKind>(i);
  const bool is_simpo = options.kind == PreferenceKind::simpo;
  options.beta = in.number("beta");
  options.label_smoothing = in.number("label_smoothing", 0);
  const std::string length = in.choice("length", {"sum", "mean"}, is_simpo ? "mean" : "sum");
  options.scale = length == "mean" ? AnswerScale::mean : AnswerScale::sum;
  if (is_simpo) {
    const std::optional<double> gamma = in.maybe_number("simpo_gamma");  // TRL's CPOTrainer
    options.gamma_beta_ratio = gamma ? *gamma / options.beta : in.number("gamma_beta_ratio");
  }
  if (auto checked = algorithms::check_preference(options); !checked)
    in.refuse("params: " + checked.error().detail);
  return options;
}

/// One side of the pairs.
struct Side {
  Array model;  // of the gradient
  at::Tensor leaf, policy, ref, length;
};

Side side_of(Case& in, const std::string& name, const algorithms::PreferenceOptions& options) {
  const bool has_tokens = in.has_input("mask_chosen") || in.has_input("mask_rejected");
  const bool has_reference = options.kind != PreferenceKind::simpo;
  in.pass_over({"length_" + name, "ref_" + name});
  Side side;
  side.model = in.array((has_tokens ? "mask_" : "policy_") + name, has_tokens ? 2 : 1);
  side.leaf = leaf_of(in, in.array_like("policy_" + name, side.model));
  at::Tensor ref;
  if (has_reference) ref = tensor_of(in, in.array_like("ref_" + name, side.model));
  if (has_tokens) {
    const algorithms::TokenPlaces places = places_of(side.model);
    if (in.has_problem()) return side;  // shapes that disagree
    side.policy = algorithms::sequence_sums(side.leaf, places);
    if (has_reference) side.ref = algorithms::sequence_sums(ref, places);
    side.length = algorithms::sequence_sums(at::ones_like(side.leaf.detach()), places);
    return side;
  }
  side.policy = side.leaf;
  side.ref = ref;
  if (options.scale == AnswerScale::mean) {
    const Array lengths = in.array_like("length_" + name, side.model);
    in.check_lengths("length_" + name, lengths);
    side.length = tensor_of(in, lengths);
  }
  return side;
}

}  // namespace

Expected<Json> preference(Case& in) {
  const algorithms::PreferenceOptions options = preference_options_of(in);
  const Side chosen = side_of(in, "chosen", options);
  const Side rejected = side_of(in, "rejected", options);
  if (chosen.model.rows() != rejected.model.rows())
    in.refuse("inputs: the chosen answers are not as many as the rejected ones");
  const PairMask pairs = pair_mask_of(in, chosen.model.rows());
  COHORT_TRY(in.read());
  const algorithms::PairLoss loss =
      algorithms::preference_loss({chosen.policy, rejected.policy, chosen.ref, rejected.ref,
                                   chosen.length, rejected.length, pairs.mask},
                                  options, pairs.count);
  return Json{{"loss", in.answer(loss.total.item<double>())},
              {"accuracy", in.answer(loss.numbers.at("preference/accuracy"))},
              {"reward_chosen", in.answer(loss.numbers.at("preference/reward_chosen"))},
              {"reward_rejected", in.answer(loss.numbers.at("preference/reward_rejected"))},
              {"grad_policy_chosen", gradient_of(in, loss.total, chosen.leaf, chosen.model)},
              {"grad_policy_rejected", gradient_of(in, loss.total, rejected.leaf, rejected.model)}};
}

}  // namespace cohort::evaluate
