#pragma once
/// Policy losses on tensors: the PPO family as ROLL and verl write it, entropy, KL to a reference,
/// and the supervised loss of the warm start. No state; a call runs on the caller's thread under
/// its autograd mode.
///   l = the loss per token of a row of the catalogue (losses/)
///   total = agg(l) - entropy_coef agg(H) + kl_loss_coef agg(kl(lp, ref))
/// ALG-3: agg divides by counts of the whole optimizer mini-batch, which the caller hands in. The
/// sum of `total` over any split of the mini-batch into micro-batches of whole sequences is the
/// same number, and so is its gradient. The numbers reported beside it are shares that add up the
/// same way (ratio_max: take the maximum). ALG-4: values at positions with mask 0, NaN included,
/// reach neither a value nor a gradient.
#include <cstdint>

#include "algorithms/aggregation.hpp"
#include "algorithms/kl.hpp"
#include "runtime/base/numbers.hpp"
#include "runtime/catalog/catalog.hpp"
#include "runtime/tensor/torch.hpp"

namespace cohort::algorithms {

/// The KL to the reference in a loss.
struct KlLossOptions {
  KlKind kind = KlKind::k3;
  bool is_straight_through = false;  // verl's "+": the value of `kind`, the gradient of k2
  bool is_bias_corrected = false;  // TRL's use_bias_correction_kl: times pi/old, with its gradient
};

/// Returns the KL of each token [M]. logp: [M] with a gradient; ref_logp: [M]; old_logp: [M], read
/// by the bias correction alone. Any of f32 and f64; finite where it counts.
at::Tensor kl_tokens(const at::Tensor& logp, const at::Tensor& ref_logp, const at::Tensor& old_logp,
                     const KlLossOptions& options);

struct PolicyLossOptions {
  catalog::PolicyLossKind kind = catalog::PolicyLossKind::ppo;
  double pg_clip = 0.2;  // only for ROLL's dual clip bound
  double pg_clip_low = 0.2;
  double pg_clip_high = 0.2;
  bool dual_clip = false;
  double dual_clip_bound = 0;  // c; 0 = ROLL's 1 + 2 pg_clip
  LossAgg loss_agg = LossAgg::seq_mean_token_mean;
  double entropy_coef = 0;
  bool use_kl_loss = false;
  double kl_loss_coef = 0;
  KlLossOptions kl = {};
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

/// The numbers are actor/pg_loss = agg(l), actor/entropy = agg(H), actor/kl_loss = agg(kl) where
/// the loss has it; per live token what the surrogate names, e.g. actor/clipfrac, and
/// actor/approxkl, k3 of (old -> new), never negative; actor/ratio_max, the largest rho.
struct PolicyLoss {
  at::Tensor total;  // scalar; backward through it
  Numbers numbers;
};

/// Returns the share of this micro-batch. COHORT_CHECK on shapes. May throw c10::Error, which the
/// caller's folder catches.
PolicyLoss policy_loss(const PolicyLossInput& input, const PolicyLossOptions& options,
                       const GlobalCounts& counts);

/// -sum logp / T over mask 1 (the warm start). mask may be undefined (all).
PolicyLoss sft_loss(const at::Tensor& logp, const at::Tensor& mask, const GlobalCounts& counts);

}  // namespace cohort::algorithms
