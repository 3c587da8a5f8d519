#pragma once
/// From rewards to one advantage per token, on packed host spans. Pure; std only.
/// Layout: N tokens of S sequences back to back, cu_seqlens [S + 1] with cu_seqlens[0] = 0 and
/// cu_seqlens[S] = N. Entry t belongs to token t; mask 1 = the policy sampled the token. Sums run
/// in double, results are float. ALG-2: a value at a masked position, NaN included, never reaches a
/// result. Masked results are exact zeros.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "algorithms/kl.hpp"
#include "runtime/base/error.hpp"

namespace cohort::algorithms {

struct PackedLayout {
  std::span<const int32_t> cu_seqlens;  // [S + 1]
  std::span<const uint8_t> mask;        // [N]
};

struct TokenRewards {
  std::span<const double> rewards;  // [N]
  PackedLayout layout;
  double gamma = 1;
  std::span<const double> values = {};  // [N] a critic's, of estimators that need one
  double lambda = 1;
};
/// One advantage per token [N].
using TokenAdvantages = std::vector<double> (*)(const TokenRewards& in);

/// G_t = r_t + gamma G_{t+1} over all tokens of each sequence, masked or not (ROLL's reinforce,
/// grpo, gigpo).
std::vector<double> discounted_returns(const TokenRewards& in);
/// ROLL's agentic_reinforce: per contiguous run of mask 1, from the back, C <- r_last(run) + gamma
/// C; each token of the run gets C.
std::vector<double> segment_returns(const TokenRewards& in);

/// ROLL's token rewards, the estimator's recursion, and ROLL's post-processing.
struct AdvantageOptions {
  TokenAdvantages advantages = discounted_returns;
  double gamma = 1, lambda = 1;
  // clamp of the response reward, and again of the token rewards after KL
  std::optional<double> reward_clip = {};
  bool add_token_level_kl = false;  // r_t -= kl_coef * k_t
  KlKind kl_kind = KlKind::k3;
  double kl_coef = 0;
  bool whiten = false;                        // over all valid tokens of the batch
  std::optional<double> advantage_clip = {};  // after whitening: it clips whitened values
};

struct AdvantageInput {
  PackedLayout layout;
  std::span<const double> rewards;     // [S] normalised response rewards
  std::span<const float> logp;         // [N] or empty; needed with add_token_level_kl
  std::span<const float> ref_logp;     // [N] or empty; likewise
  std::span<const float> values = {};  // [N] or empty; of estimators that need a critic
};

struct AdvantageSummary {
  double mean = 0;  // of the valid tokens, after all steps
  double std = 0;   // unbiased
  uint64_t tokens = 0;
};

/// Places each reward on the last valid token of its sequence (a sequence without one gets none),
/// subtracts the KL reward, runs the estimator's recursion over the tokens of the sequence, then
/// whiten -> mask -> clip. `advantages` has N entries. Returns Errc::invalid_argument if lengths
/// disagree or a valid input is not finite.
Expected<AdvantageSummary> compute_token_advantages(const AdvantageInput& input,
                                                    const AdvantageOptions& options,
                                                    std::span<float> advantages);

/// x <- (x - mean)/sqrt(var + 1e-8) over the valid tokens, var unbiased; masked entries become 0.
/// Without `shift_mean` the mean is added again (verl's masked_whiten). With at most one valid
/// token x is left as it is there.
void whiten(std::span<double> x, std::span<const uint8_t> mask, bool shift_mean = true);

}  // namespace cohort::algorithms
