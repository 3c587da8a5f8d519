#pragma once
/// Policy losses on tensors: the PPO family as ROLL and verl write it, entropy, KL to a reference,
/// and the supervised loss of the warm start. No state; a call runs on the caller's thread under
/// its autograd mode.
///   PPO (arXiv 1707.06347, eq. 7), per token, minimised: rho = exp(lp - old),
///     l = -min(rho A, clip(rho, 1 - low, 1 + high) A)
///   dual clip (arXiv 1912.09729, eq. 5) where A < 0: l = -max(min(rho A, clip A), c A); ROLL's c =
///   1 + 2 pg_clip (1.4 at
///     the default), verl's c = 3. lp - old is clamped to +-20 first (verl): no overflow, no
///     gradient beyond.
///   total = agg(l) - entropy_coef agg(H) + kl_loss_coef agg(kl(lp, ref))
/// ALG-3: agg divides by counts of the whole optimizer mini-batch, which the caller hands in. The
/// sum of `total` over any split of the mini-batch into micro-batches of whole sequences is the
/// same number, and so is its gradient. The numbers reported beside it are shares that add up the
/// same way (ratio_max: take the maximum). ALG-4: values at positions with mask 0, NaN included,
/// reach neither a value nor a gradient.
#include <cstdint>
#include <string_view>

#include "algorithms/kl.hpp"
#include "runtime/base/error.hpp"
#include "runtime/tensor/torch.hpp"

namespace cohort::algorithms {

/// With T tokens, S sequences that have a valid token, n_i valid tokens in sequence i, L the norm
/// length:
enum class LossAgg : uint8_t {
  token_mean,              // sum l / T
  seq_mean_token_sum,      // sum_i (sum_t l) / S
  seq_mean_token_mean,     // sum_i (sum_t l / n_i) / S     ROLL's default
  seq_mean_token_sum_norm  // sum l / L                     Dr.GRPO (arXiv 2503.20783), up to its
                           // 1/S
};
/// Reads ROLL's and verl's names, e.g. "seq-mean-token-mean". Returns Errc::config for anything
/// else.
Expected<LossAgg> parse_loss_agg(std::string_view name);

/// Counts of the optimizer mini-batch, the same for each of its micro-batches.
struct GlobalCounts {
  double tokens = 0;       // T: positions with mask 1
  double sequences = 0;    // S: sequences with such a position
  double norm_length = 1;  // L: padded length; used by seq_mean_token_sum_norm alone
};

struct PolicyLossOptions {
  double pg_clip = 0.2;  // only for ROLL's dual clip bound
  double pg_clip_low = 0.2;
  double pg_clip_high = 0.2;
  bool dual_clip = false;
  double dual_clip_bound = 0;  // c; 0 = ROLL's 1 + 2 pg_clip
  LossAgg loss_agg = LossAgg::seq_mean_token_mean;
  double entropy_coef = 0;
  bool use_kl_loss = false;
  double kl_loss_coef = 0;
  KlKind kl_kind = KlKind::k3;
};

/// One micro-batch: M positions. logp carries the gradient, entropy may; the others do not.
struct PolicyLossInput {
  at::Tensor logp;  // [M] f32, log-probability of the token given its prefix
  at::Tensor
      old_logp;  // [M] f32, under the policy at the start of the update; undefined = logp, detached
  at::Tensor advantages;  // [M] f32
  at::Tensor mask;        // [M] bool or u8, 1 = counts; undefined = all
  at::Tensor ref_logp;    // [M] f32 or undefined
  at::Tensor entropy;     // [M] f32 or undefined
  at::Tensor seq_id;      // [M] i64, sequence of the position in 0 .. seq_count-1
  int64_t seq_count = 0;
};

struct PolicyLoss {
  at::Tensor total;          // scalar; backward through it
  double pg_loss = 0;        // agg(l)
  double entropy = 0;        // agg(H), 0 if not given
  double kl = 0;             // agg(kl), 0 without a reference
  double clip_fraction = 0;  // positions where the clipped side is the worse one / T
  double approx_kl = 0;      // k3 of (old -> new) / T; never negative
  double ratio_max = 0;      // largest rho here
};

/// Returns the share of this micro-batch. COHORT_CHECK on shapes. May throw c10::Error, which the
/// caller's folder catches.
PolicyLoss policy_loss(const PolicyLossInput& input, const PolicyLossOptions& options,
                       const GlobalCounts& counts);

/// -sum logp / T over mask 1 (the warm start). mask may be undefined (all).
PolicyLoss sft_loss(const at::Tensor& logp, const at::Tensor& mask, const GlobalCounts& counts);

}  // namespace cohort::algorithms
