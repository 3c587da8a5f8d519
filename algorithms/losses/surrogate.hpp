#pragma once
/// What a policy loss is: one loss per token behind one name of the catalogue. Masks, aggregation,
/// weights, entropy and KL are the same for all (loss.hpp). Each built row of
/// runtime/catalog/policy_losses.def has its function <id>_loss in algorithms/losses/<id>.cpp.
///
/// LOSS-2: a token's loss is a function of the positions of its own sequence, of GlobalCounts and
/// of its mark. What needs more (a mean or a rank over the mini-batch) is decided before the
/// update, in TokenPicks, and comes back as marks: so no split of the mini-batch changes a bit of
/// a token's loss or gradient.
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/loss.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/catalog/catalog.hpp"

namespace cohort::algorithms {

/// Positions [M] of a micro-batch, whole sequences. Masked ones are 0 in every tensor, and old_logp
/// is there. Floats have the dtype of logp.
struct SurrogateInput {
  at::Tensor logp, old_logp, advantages;  // [M]
  at::Tensor live;                        // [M] 1 where the mask is
  at::Tensor marks;                       // [M] or undefined: none is marked
  at::Tensor weights;  // [M] or undefined: 1; read by a loss that is the sequence's
  at::Tensor seq_id;   // [M] i64 or undefined
  int64_t seq_count = 0;
  at::Tensor segment_id;  // [M] i64 or undefined
  int64_t segment_count = 0;
  GlobalCounts counts;
};

struct Surrogate {
  at::Tensor loss;       // [M], minimised
  at::Tensor ratio;      // [M] rho = exp(log_ratio)
  at::Tensor log_ratio;  // [M] lp - old, clamped to +-20 (verl)
  /// Further metrics: name, and a value per token [M], 0 where masked. The row shows their mean.
  std::vector<std::pair<std::string_view, at::Tensor>> per_token = {};
  /// [M] weights of the sum over tokens in place of loss_agg_mode's, of a row with
  /// need::own_aggregation.
  at::Tensor aggregation = {};
  bool has_weights = false;  // the loss holds in.weights already
};
using TokenSurrogate = Surrogate (*)(const SurrogateInput& in, const PolicyLossOptions& options);

/// The live tokens of a whole mini-batch in global order, before its update. logp: log-probability
/// under the parameters that the update starts from.
struct PickInput {
  std::span<const double> logp, old_logp, advantages;
  Rng rng;  // keyed by seed, step and mini-batch
};
/// Returns the mark of each token.
using TokenPicks = std::vector<uint8_t> (*)(const PickInput& in, const PolicyLossOptions& options);

struct LossForm {
  TokenSurrogate tokens;
  TokenPicks picks = nullptr;  // of a row with need::first_pass
};

#define COHORT_BUILT(id, ...) LossForm id##_loss();
#define COHORT_PLANNED(id, ...)
#include "runtime/catalog/policy_losses.def"
#undef COHORT_BUILT
#undef COHORT_PLANNED

/// Returns the functions of a row. COHORT_CHECK on one that this version does not run.
LossForm loss_form(catalog::PolicyLossKind x);

// -- what several losses are made of

/// Returns the sum of x over the sequence of each position [M]. Added up in order of positions: the
/// same bits in any micro-batch.
at::Tensor sequence_sum(const SurrogateInput& in, const at::Tensor& x);
/// Returns the mean of x over the live positions of the sequence of each position [M].
at::Tensor sequence_mean(const SurrogateInput& in, const at::Tensor& x);
/// Returns a Surrogate without a loss: lp - old per token, or its mean over the segment or the
/// sequence, as options.ratio_level says, clamped to +-20; and its exponential.
Surrogate with_ratio(const SurrogateInput& in, const PolicyLossOptions& options);
/// Returns max(-rho A, -clip(rho, 1 - low, 1 + high) A), and puts actor/clipfrac into `s`.
at::Tensor clipped_surrogate(const SurrogateInput& in, const PolicyLossOptions& options,
                             Surrogate& s);
/// Returns -w A lp; w without a gradient.
at::Tensor policy_gradient(const SurrogateInput& in, const at::Tensor& weight);
/// Returns the covariance part (A - mean A)(lp - mean lp) of each token, means over the mini-batch.
std::vector<double> covariances(const PickInput& in);
/// Returns max(1, int(share * tokens)), and 0 of no tokens: how many tokens a share picks.
size_t pick_count(double share, size_t tokens);

}  // namespace cohort::algorithms
