#include "algorithms/preference.hpp"

#include <fmt/format.h>

#include <initializer_list>
#include <string>

#include "runtime/base/check.hpp"

namespace cohort::algorithms {
namespace {

using at::Tensor;

bool takes_smoothing(PreferenceKind kind) {
  return kind == PreferenceKind::sigmoid || kind == PreferenceKind::robust ||
         kind == PreferenceKind::simpo;
}

void check_pairs(const Tensor& model, std::initializer_list<const Tensor*> others) {
  COHORT_CHECK(model.defined() && model.dim() == 1, "PREF-1: scores of pairs must be [P]");
  for (const Tensor* x : others)
    COHORT_CHECK(!x->defined() || (x->dim() == 1 && x->size(0) == model.size(0)),
                 fmt::format("PREF-1: a tensor of the micro-batch is not [{}]", model.size(0)));
}

Tensor bool_of(const Tensor& mask) { return mask.defined() ? mask.to(at::kBool) : mask; }

/// Returns [P], an answer's side of h.
Tensor side_of_h(const Tensor& policy, const Tensor& ref, const Tensor& length, const Tensor& mask,
                 const PreferenceOptions& options) {
  const bool has_reference = options.kind != PreferenceKind::simpo;
  COHORT_CHECK(ref.defined() == has_reference,
               "PREF-1: every loss but simpo takes the reference's log-probabilities");
  Tensor side = live(policy, mask);
  if (has_reference) side = side - live(ref, mask).detach();
  if (options.scale == AnswerScale::sum) return side;
  COHORT_CHECK(length.defined(), "PREF-1: means over tokens need the lengths");
  return side / live(length.to(side.scalar_type()), mask).clamp_min(1);
}

/// Returns [P], the loss of each pair.
Tensor losses_of(const Tensor& h, const PreferenceOptions& options) {
  const double smoothing = options.label_smoothing;
  const Tensor scaled = options.beta * h;
  switch (options.kind) {
    case PreferenceKind::robust:
      return (smoothing * at::log_sigmoid(-scaled) - (1 - smoothing) * at::log_sigmoid(scaled)) /
             (1 - 2 * smoothing);
    case PreferenceKind::hinge:
      return at::relu(1 - scaled);
    case PreferenceKind::ipo:
      return (h - 1 / (2 * options.beta)).square();
    case PreferenceKind::sigmoid:
    case PreferenceKind::simpo:
      break;
  }
  return -smoothing * at::log_sigmoid(-scaled) - (1 - smoothing) * at::log_sigmoid(scaled);
}

/// Returns the share of values [P] in their mean over `pairs`.
Tensor share(const Tensor& values, const Tensor& mask, double pairs) {
  return live(values, mask).sum() * (pairs > 0 ? 1 / pairs : 0);
}

/// What is told of the answers' scores [P], which are `factor` times the two sides.
struct Sides {
  const Tensor &chosen, &rejected, &mask;
  double factor = 1;
};
void tell(const std::string& name, const Sides& x, double pairs, PairLoss& result) {
  const at::NoGradGuard no_grad;
  const auto mean = [&](const Tensor& side) { return share(side, x.mask, pairs).item<double>(); };
  const double chosen = x.factor * mean(x.chosen), rejected = x.factor * mean(x.rejected);
  result.numbers.add(name + "/loss", result.total.item<double>());
  result.numbers.add(name + "/accuracy", mean(x.chosen.gt(x.rejected).to(at::kDouble)));
  result.numbers.add(name + "/reward_chosen", chosen);
  result.numbers.add(name + "/reward_rejected", rejected);
  result.numbers.add(name + "/margin", chosen - rejected);
}

}  // namespace

Expected<void> check_preference(const PreferenceOptions& options) {
  const double smoothing = options.label_smoothing;
  auto refuse = [](std::string text) { return Error{Errc::invalid_argument, std::move(text)}; };
  if (!(options.beta > 0)) return refuse(fmt::format("beta is {}; it must be > 0", options.beta));
  if (!(smoothing >= 0 && smoothing < 0.5))
    return refuse(fmt::format("label_smoothing is {}; it must be in [0, 0.5)", smoothing));
  if (smoothing > 0 && !takes_smoothing(options.kind))
    return refuse("label_smoothing is of the losses sigmoid, robust and simpo; set it to 0");
  if (!(options.gamma_beta_ratio >= 0))
    return refuse(fmt::format("gamma_beta_ratio is {}; it must be >= 0", options.gamma_beta_ratio));
  if (options.kind == PreferenceKind::simpo) {
    if (options.scale != AnswerScale::mean) return refuse("simpo takes means over tokens, no sums");
  } else if (options.gamma_beta_ratio > 0) {
    return refuse("gamma_beta_ratio is of simpo; set it to 0");
  }
  return {};
}

PairLoss preference_loss(const PreferenceInput& input, const PreferenceOptions& options,
                         double pairs) {
  const auto checked = check_preference(options);
  COHORT_CHECK(checked.has_value(), checked ? "" : checked.error().detail);
  check_pairs(input.policy_chosen, {&input.policy_rejected, &input.ref_chosen, &input.ref_rejected,
                                    &input.length_chosen, &input.length_rejected, &input.mask});
  COHORT_CHECK(input.policy_rejected.defined(), "PREF-1: policy_rejected is missing");
  const Tensor mask = bool_of(input.mask);
  const Tensor chosen =
      side_of_h(input.policy_chosen, input.ref_chosen, input.length_chosen, mask, options);
  const Tensor rejected =
      side_of_h(input.policy_rejected, input.ref_rejected, input.length_rejected, mask, options);
  PairLoss result;
  // The ratio is 0 but for simpo.
  result.total =
      share(losses_of(chosen - rejected - options.gamma_beta_ratio, options), mask, pairs);
  tell("preference", {chosen, rejected, mask, options.beta}, pairs, result);
  return result;
}

PairLoss reward_model_loss(const RewardModelInput& input, double center_coef, double pairs) {
  check_pairs(input.chosen, {&input.rejected, &input.margin, &input.mask});
  COHORT_CHECK(input.rejected.defined(), "PREF-1: rejected is missing");
  const Tensor mask = bool_of(input.mask);
  const Tensor chosen = live(input.chosen, mask);
  const Tensor rejected = live(input.rejected, mask);
  Tensor lead = chosen - rejected;
  if (input.margin.defined()) lead = lead - live(input.margin, mask);
  Tensor losses = -at::log_sigmoid(lead);
  if (center_coef != 0) losses = losses + center_coef * (chosen + rejected).square();
  PairLoss result;
  result.total = share(losses, mask, pairs);
  tell("reward_model", {chosen, rejected, mask}, pairs, result);
  return result;
}

Tensor sequence_sums(const Tensor& x, const TokenPlaces& places) {
  check_pairs(x, {&places.mask, &places.seq_id});
  COHORT_CHECK(places.seq_id.defined(), "PREF-1: sums of sequences need seq_id");
  const Tensor wide = live(x, bool_of(places.mask)).to(at::kDouble);
  return at::zeros({places.seq_count}, wide.options().requires_grad(false))
      .index_add(0, places.seq_id, wide)
      .to(x.scalar_type());
}

}  // namespace cohort::algorithms
