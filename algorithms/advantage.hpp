#pragma once
/// From rewards to one advantage per token, on packed host spans. Pure; std only.
/// Layout: N tokens of S sequences back to back, cu_seqlens [S + 1] with cu_seqlens[0] = 0 and
/// cu_seqlens[S] = N. Entry t belongs to token t; mask 1 = the policy sampled the token. All
/// numbers are doubles: a batch's f32 columns are widened once.
/// ALG-2: a value at a masked position, NaN included, never reaches a result. Masked results are
/// exact zeros.
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

/// What a recursion from the last token to the first does at one that the policy did not sample.
enum class Holes : uint8_t {
  through,  // what it does at any other, with reward 0 (ROLL)
  carry,    // nothing: what comes after the hole goes to the token before it (verl)
  reset,    // begins anew before it (verl before 0.9; the turns of a trajectory, each by itself)
};

struct TokenRewards {
  std::span<const double> rewards;  // [N]
  PackedLayout layout;
  double gamma = 1;
  std::span<const double> values = {};  // [N] a critic's, of estimators that need one
  double lambda = 1;
  Holes holes = Holes::through;
  std::span<const double> leads = {};  // [N] or empty; credit_tokens adds them, no recursion does
};
/// One advantage per token [N].
using TokenAdvantages = std::vector<double> (*)(const TokenRewards& in);

/// G_t = r_t + gamma G_{t+1} over the tokens of each sequence (ROLL's reinforce and grpo; verl's
/// reinforce_plus_plus).
std::vector<double> discounted_returns(const TokenRewards& in);
/// ROLL's agentic_reinforce: per contiguous run of mask 1, from the back, C <- r_last(run) + gamma
/// C; each token of the run gets C.
std::vector<double> segment_returns(const TokenRewards& in);
/// The returns of each contiguous run of mask 1 by itself; `holes` is not read (ROLL's gigpo and
/// step_reinforce, whose samples are turns).
std::vector<double> turn_returns(const TokenRewards& in);

/// Token rewards, the estimator's recursion, and what comes after it.
struct AdvantageOptions {
  TokenAdvantages advantages = discounted_returns;
  double gamma = 1, lambda = 1;
  Holes holes = Holes::through;
  // clamp of the response reward, and again of the token rewards after KL
  std::optional<double> reward_clip = {};
  bool add_token_level_kl = false;  // r_t -= kl_coef * k_t
  KlKind kl_kind = KlKind::k3;
  double kl_coef = 0;
  bool whiten_rewards = false;                // token rewards, before the recursion
  bool whiten = false;                        // over all valid tokens of the batch
  std::optional<double> advantage_clip = {};  // after whitening: it clips whitened values
};

struct AdvantageInput {
  PackedLayout layout;
  std::span<const double> rewards;           // [S] normalised response rewards
  std::span<const double> logp;              // [N] or empty; needed with add_token_level_kl
  std::span<const double> ref_logp;          // [N] or empty; likewise
  std::span<const double> values = {};       // [N] or empty; of estimators that need a critic
  std::span<const uint32_t> turn_ends = {};  // [K] tokens; then rewards has K entries, of turns
  std::span<const double> leads =
      {};  // [N] or empty: advantages beside the estimator's (teacher.hpp)
};

struct AdvantageSummary {
  double mean = 0;  // of the valid tokens, after all steps
  double std = 0;   // unbiased
  uint64_t tokens = 0;
};

/// Per token [N], 0 where masked.
struct TokenCredit {
  std::vector<double> raw;         // of the recursion, without leads
  std::vector<double> returns;     // raw + values, what a critic learns; without values, raw
  std::vector<double> advantages;  // raw + leads, then whitened and clipped as asked
  AdvantageSummary summary;
};

/// Places each reward on the last valid token of its sequence (a sequence without one gets none),
/// or of its turn (a masked one gets none); subtracts the KL reward, whitens if asked: one reward
/// per token [N]. Returns Errc::invalid_argument if lengths disagree or a valid input is not
/// finite.
Expected<std::vector<double>> place_rewards(const AdvantageInput& input,
                                            const AdvantageOptions& options);

/// Runs the estimator's recursion over the tokens of each sequence, then whiten -> mask -> clip. Of
/// `in`, options' gamma, lambda and holes count. Errors as above.
Expected<TokenCredit> credit_tokens(const TokenRewards& in, const AdvantageOptions& options);

/// Both: place_rewards, then credit_tokens.
Expected<TokenCredit> compute_token_advantages(const AdvantageInput& input,
                                               const AdvantageOptions& options);

/// x <- (x - mean)/sqrt(var + 1e-8) over the N valid tokens, var unbiased; masked entries become 0.
/// As verl's masked_mean and masked_var, mean and var divide by N + 1e-8: equal values c become
/// c 1e-4/N. Without `shift_mean` the mean is added again (verl's masked_whiten). With at most one
/// valid token x is left as it is there.
void whiten(std::span<double> x, std::span<const uint8_t> mask, bool shift_mean = true);

/// Returns 1 - Var(R - V)/Var(R) over the valid tokens: 1 when values are the returns, 0 when they
/// say no more than a constant, and 0 when the returns do not vary.
double explained_variance(std::span<const double> values, std::span<const double> returns,
                          std::span<const uint8_t> mask);

}  // namespace cohort::algorithms
