#pragma once
/// Corrections for the gap between the policy that sampled (beh) and the one that begins the update
/// (old): weights on the loss of a token, rules that take tokens out of it, and numbers that show
/// the gap. Pure; f64; std only. x_t = clamp(old_t - beh_t, +-20) of the tokens with mask 1; the
/// clamp is verl's. Means and sums run in order over the whole batch of a step, so no split of it
/// changes a bit. ALG-2: a value at a masked position, NaN included, reaches no result.
///   token      e^x            segment    e^(mean of x over the run of sampled tokens)
///   geometric  e^(mean x)     sequence   e^(sum x)
/// Sources: arXiv 2511.22305 and verl (token, sequence, rejection lists, normalisation), ROLL
/// (train_infer_correction), OpenRLHF (gate), TRL (sequence mask), AReaL (decoupled PPO: token,
/// mask, no lower bound).
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/advantage.hpp"
#include "runtime/catalog/correction_rules.hpp"

namespace cohort::algorithms {

struct CorrectionInput {
  PackedLayout layout;
  std::span<const double> old_logp, behavior_logp;  // [N]
};

struct Correction {
  std::vector<double> weights;  // [N] 0 where masked; empty: no weight was asked for
  std::vector<uint8_t> mask;    // [N] the mask without what the rules took out; empty: as before
  /// rollout_corr/rollout_is_{mean,std,max,min,eff_sample_size,clipped_fraction} of live tokens
  /// before normalisation, rollout_corr/masked_fraction of the rules.
  std::vector<std::pair<std::string, double>> numbers;
};

/// COHORT_CHECK on lengths.
Correction correct(const CorrectionInput& input, const catalog::Correction& rules);

/// The gap as verl reports it, names as written: kl (mean of beh - old), k3_kl, training_ppl,
/// rollout_ppl, log_ppl_diff, ppl_ratio (means over sequences), chi2_token, chi2_seq. A sequence
/// without a token counts with log-perplexity 0, as in verl.
std::vector<std::pair<std::string, double>> offpolicy_metrics(const CorrectionInput& input);

}  // namespace cohort::algorithms
