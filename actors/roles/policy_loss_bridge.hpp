#pragma once
/// Joins algorithms::policy_loss with compute::TrainEngine, which may not know each other.
/// Torch-free header.
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/numbers.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/compute/train/train_engine.hpp"
#include "runtime/config/run_config.hpp"

namespace cohort::actors {

/// Mean |log-prob - the recorded one| of a response token, where both sides are known.
inline constexpr std::string_view k_behavior_gap = "old_log_probs/behavior_gap";

/// Clipped policy loss with entropy and KL terms as `config` says, normalised by the counts of the
/// mini-batch. With old_log_probs first_pass the samples' old_logp are the recorded ones: the loss
/// divides by its own, detached, and reports how far the recorded ones are from them.
compute::LossFactory make_policy_loss(const config::RunConfig& config);
/// Returns the loss that `config` names; ppo if it names none.
catalog::PolicyLossKind policy_loss_kind(const config::RunConfig& config);
/// The live tokens of a mini-batch before its update, in global order.
struct PickColumns {
  const std::vector<double>&logp, &old_logp, &advantages;
  Rng rng;
};
/// Returns the marks that the loss of `config` gives the tokens; it has need::first_pass.
std::vector<uint8_t> token_picks(const config::RunConfig& config, const PickColumns& tokens);
/// An optimizer batch as a formula reads it: one row per sample, one entry per token.
struct LossColumns {
  std::span<const compute::TrainSample> samples;
  const std::vector<std::vector<float>>& logp;     // of the current policy
  const std::vector<std::vector<float>>& entropy;  // empty: not known, and left out
};
struct TokenLosses {
  std::vector<std::vector<float>> losses;     // l before aggregation; 0 where the mask is 0
  std::vector<std::vector<float>> gradients;  // of the batch's loss by the token's log-prob
  double total = 0;
  Numbers numbers;
};
/// The loss that make_policy_loss gives, of log-probs that are known, with each token's part.
TokenLosses policy_loss_of(const config::RunConfig& config, const LossColumns& columns);
/// Negative log-likelihood of the response tokens, token mean: the warm start and pipeline sft.
compute::LossFactory make_sft_loss();
/// Pipeline distill: distill_loss_weight times the mean divergence of a counted token from the
/// teacher's distribution, and the rest times the token's negative log-likelihood.
compute::LossFactory make_distill_loss(const config::RunConfig& config);
/// Returns the divergence that `config` names, for TrainEngine::learn_from.
compute::LogitDivergence make_divergence(const config::RunConfig& config);
/// Loss of an optimizer step whose samples 2k and 2k + 1 are the chosen and the rejected answer of
/// pair k. Pipeline dpo; ref_logp undefined: its log-probabilities are 0. Pipeline rm: the outputs'
/// log-probabilities are scores, one for each sample.
compute::LossFactory make_pair_loss(const config::RunConfig& config);
/// Returns the numbers of that loss over `samples`. logp[i][t]: log-probability of token t of
/// sample i where its mask is 1. Returns Errc::compute for what torch throws.
Expected<Numbers> pair_numbers(const config::RunConfig& config,
                               std::span<const compute::TrainSample> samples,
                               const std::vector<std::vector<float>>& logp);
/// Of a critic. Of the columns of a micro-batch old_logp holds the values when the update began,
/// advantages the returns; the outputs' log-probabilities are the values.
compute::LossFactory make_value_loss(const config::RunConfig& config);

}  // namespace cohort::actors
