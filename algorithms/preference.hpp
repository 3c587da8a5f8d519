#pragma once
/// Losses on pairs of answers to one prompt: direct preference losses of a policy, and the loss of
/// a reward model. No state; a call runs on
/// the caller's thread under its autograd mode, in the dtype of its input (f32 or f64).
///   h = (lp_chosen - ref_chosen) - (lp_rejected - ref_rejected), over an answer's tokens
///   sigmoid  -(1 - e) ln s(b h) - e ln s(-b h)          DPO, arXiv 2305.18290 eq. 7; with e > 0
///            conservative: E. Mitchell, "A note on DPO with noisy preferences", 2023
///   robust   (-(1 - e) ln s(b h) + e ln s(-b h)) / (1 - 2e)          arXiv 2403.00409
///   hinge    max(0, 1 - b h)                                         SLiC, arXiv 2305.10425
///   ipo      (h - 1/(2b))^2                                          arXiv 2310.12036 eq. 17
///   simpo    sigmoid of h - gamma/b; h without ref, over means       arXiv 2405.14734 eq. 6
///   reward model   -ln s(c - r - margin) + center_coef (c + r)^2     arXiv 2307.09288 eq. 2 and
///                                                                    arXiv 2312.09244 eq. 2
/// with s the logistic function, b = beta, e = label_smoothing. A loss is the mean over the pairs.
/// PREF-1: the mean divides by the pairs of the whole optimizer mini-batch, which the caller hands
/// in. The sum of `total` over any split into micro-batches of whole pairs is the same number, and
/// so are its gradient and each of `numbers`. PREF-2: values at positions with mask 0, NaN
/// included, reach neither a value nor a gradient.
#include <cstdint>

#include "algorithms/aggregation.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/numbers.hpp"
#include "runtime/catalog/preference_kinds.hpp"

namespace cohort::algorithms {

using catalog::AnswerScale;  // of h; means make h smaller by the answers' length
using catalog::PreferenceKind;

struct PreferenceOptions {
  PreferenceKind kind = PreferenceKind::sigmoid;
  double beta = 0.1;                     // > 0
  double label_smoothing = 0;            // e in [0, 0.5); of sigmoid, robust and simpo
  AnswerScale scale = AnswerScale::sum;  // simpo: mean
  double gamma_beta_ratio = 0;           // simpo's gamma/b >= 0
};

/// Returns Errc::invalid_argument, naming the member, if options are out of range or contradict
/// each other.
Expected<void> check_preference(const PreferenceOptions& options);

/// One micro-batch of P pairs. policy_* carry the gradient.
struct PreferenceInput {
  at::Tensor policy_chosen, policy_rejected;  // [P] sums of the log-probabilities of the tokens
  at::Tensor ref_chosen, ref_rejected;        // [P] likewise, of the reference; simpo: undefined
  at::Tensor length_chosen, length_rejected;  // [P] counted tokens, any dtype; needed by means
  at::Tensor mask;                            // [P] bool or u8, 1 = counts; undefined = all
};

/// numbers: NAME/loss; NAME/accuracy, the share of the pairs whose chosen answer scores higher;
/// NAME/reward_chosen and NAME/reward_rejected, the means of the answers' scores, and NAME/margin,
/// that of their difference. NAME is `preference`, where a score is b (lp - ref), over tokens as
/// `scale` says; or `reward_model`.
struct PairLoss {
  at::Tensor total;  // scalar; backward through it
  Numbers numbers;
};

/// Returns the share of this micro-batch; `pairs` counts those of the mini-batch. COHORT_CHECK on
/// shapes and on options that check_preference refuses. May throw c10::Error, which the caller's
/// folder catches.
PairLoss preference_loss(const PreferenceInput& input, const PreferenceOptions& options,
                         double pairs);

/// One micro-batch of P pairs. chosen and rejected carry the gradient.
struct RewardModelInput {
  at::Tensor chosen, rejected;  // [P] the model's score of an answer, at its last token
  at::Tensor margin;            // [P] how much better the chosen answer is; undefined = 0
  at::Tensor mask;              // [P] as above
};

/// Likewise, the loss of a reward model (Bradley-Terry). center_coef pulls c + r to 0, since pairs
/// alone leave the scores' origin free (TRL: center_rewards_coefficient; 0 = off).
PairLoss reward_model_loss(const RewardModelInput& input, double center_coef, double pairs);

/// Returns [seq_count], the sum of x [M] over the counted tokens of each sequence: of log-probs for
/// policy_* and ref_*, of ones for length_*. Adds up in f64 and in token order: h is a small
/// difference of large sums. Result and gradient have the dtype of x.
at::Tensor sequence_sums(const at::Tensor& x, const TokenPlaces& places);

}  // namespace cohort::algorithms
