/// Kinds kl, kl_reward, kl_controller.
#include "algorithms/kl.hpp"

#include <algorithm>

#include "algorithms/advantage.hpp"
#include "algorithms/loss.hpp"
#include "tools/actor-node/evaluate/case_tensors.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {
namespace {

/// Reads "kl_penalty": a name of the catalogue in any dialect, with verl's "+".
algorithms::KlLossOptions estimator_of_kl(Case& in) {
  const auto rows = catalog::entries(catalog::KlKind{});
  std::vector<std::string> known;
  for (const catalog::Dialect dialect : {catalog::Dialect::verl, catalog::Dialect::roll})
    for (const catalog::Name& name : catalog::names(rows, dialect))
      if (rows[name.row].is_built &&
          std::find(known.begin(), known.end(), name.text) == known.end())
        known.emplace_back(name.text);
  const std::string text = in.choice("kl_penalty", known);
  algorithms::KlLossOptions options;
  auto found = catalog::find<catalog::KlKind>(text, catalog::Dialect::verl);
  if (!found) found = catalog::find<catalog::KlKind>(text, catalog::Dialect::roll);
  options.kind = found.value_or(catalog::KlKind::k3);
  options.is_straight_through = text.ends_with('+');
  return options;
}

}  // namespace

/// {"kl_penalty", "use_bias_correction_kl", "loss_agg_mode": token-mean}; log_probs, ref_log_probs,
/// mask [B][T], old_log_probs with the correction -> kl [B][T], loss, grad_log_probs [B][T].
Expected<Json> kl(Case& in) {
  in.choice("dialect", {"verl", "roll", "trl"}, "verl");
  algorithms::KlLossOptions options = estimator_of_kl(in);
  options.is_bias_corrected = in.flag("use_bias_correction_kl", false);
  const algorithms::LossAgg agg = aggregation_of(in);
  const Array mask = in.array("mask", 2);
  const at::Tensor logp = leaf_of(in, in.array_like("log_probs", mask));
  const at::Tensor ref = tensor_of(in, in.array_like("ref_log_probs", mask));
  in.pass_over({"old_log_probs"});
  at::Tensor old;
  if (options.is_bias_corrected) old = tensor_of(in, in.array_like("old_log_probs", mask));
  COHORT_TRY(in.read());
  const algorithms::TokenPlaces places = places_of(mask);
  const at::Tensor weights =
      algorithms::aggregation_weights(logp.size(0), ref.options(), places, agg, counts_of(mask));
  if (old.defined()) old = algorithms::live(old, places.mask);
  const at::Tensor tokens = algorithms::kl_tokens(algorithms::live(logp, places.mask),
                                                  algorithms::live(ref, places.mask), old, options);
  const at::Tensor loss = (weights * tokens).sum();
  return Json{{"kl", json_of(in, algorithms::live(tokens, places.mask), mask)},
              {"loss", in.answer(loss.item<double>())},
              {"grad_log_probs", gradient_of(in, loss, logp, mask)}};
}

/// {"kl_penalty", "kl_coef", "reward_clip"}; scores [B], old_log_probs, ref_log_probs, mask [B][T]
/// -> token_rewards [B][T], current_kl: what the controller sees.
Expected<Json> kl_reward(Case& in) {
  algorithms::AdvantageOptions options;
  options.add_token_level_kl = true;
  options.kl_kind = estimator_of_kl(in).kind;
  options.kl_coef = in.number("kl_coef");
  options.reward_clip = in.maybe_number("reward_clip");
  const Array mask = in.array("mask", 2), scores = in.array("scores", 1);
  const Array logp = in.array_like("old_log_probs", mask);
  const Array ref = in.array_like("ref_log_probs", mask);
  COHORT_TRY(in.read());
  const Packed packed = packed_of(mask);
  COHORT_ASSIGN(
      const std::vector<double> rewards,
      algorithms::place_rewards(
          {{packed.cu_seqlens, packed.mask}, scores.values, logp.values, ref.values}, options));
  std::vector<double> of_tokens;
  for (size_t t = 0; t < logp.values.size(); ++t)
    of_tokens.push_back(algorithms::kl_estimate(options.kl_kind, logp.values[t], ref.values[t]));
  return Json{{"token_rewards", in.answer(rewards, mask)},
              {"current_kl",
               in.answer(algorithms::sequence_mean(of_tokens, packed.mask, packed.cu_seqlens))}};
}

/// {"type": fixed | adaptive, "kl_coef", "target_kl", "horizon", "batch_size"}; current_kl [steps]
/// -> kl_coef [steps], after each.
Expected<Json> kl_controller(Case& in) {
  const bool is_adaptive = in.choice("type", {"fixed", "adaptive"}) == "adaptive";
  const double coefficient = in.number("kl_coef");
  const std::optional<double> target = in.maybe_number("target_kl");
  const double horizon = in.number("horizon", 10000.0), batch = in.number("batch_size", 1.0);
  const Array kls = in.array("current_kl", 1);
  if (is_adaptive && !target) in.refuse("params: 'target_kl' is missing");
  if (is_adaptive && target && !(*target > 0)) in.refuse("params: 'target_kl' is not above 0");
  if (is_adaptive && !(horizon > 0)) in.refuse("params: 'horizon' is not above 0");
  COHORT_TRY(in.read());
  algorithms::KlController controller(coefficient, is_adaptive ? target : std::nullopt, horizon);
  std::vector<double> coefficients;
  for (double found : kls.values) {
    controller.update(found, batch);
    coefficients.push_back(controller.coefficient());
  }
  return Json{{"kl_coef", in.answer(coefficients, kls)}};
}

}  // namespace cohort::evaluate
