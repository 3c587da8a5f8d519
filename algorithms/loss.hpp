#pragma once
/// Policy losses on tensors: the losses of the catalogue, entropy, KL to a reference, and the
/// supervised loss of the warm start. No state; a call runs on the caller's thread under its
/// autograd mode. Results have the dtype of logp (f32 in a run).
///   l = the loss per token of a row of the catalogue (losses/), times its weight (correction.hpp)
///   total = rl_coef (agg(l) + kl_loss_coef agg(kl(lp, ref))) - entropy_coef agg(H)
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
#include "runtime/catalog/correction_rules.hpp"
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
/// What a ratio covers: a token, a run of sampled tokens, or the sequence (exp of the mean).
enum class RatioLevel : uint8_t { token, segment, sequence };

struct PolicyLossOptions {
  catalog::PolicyLossKind kind = catalog::PolicyLossKind::ppo;
  double pg_clip = 0.2;  // only for ROLL's dual clip bound
  double pg_clip_low = 0.2;
  double pg_clip_high = 0.2;
  bool dual_clip = false;
  std::optional<double> dual_clip_bound = {};  // c; none: ROLL's 1 + 2 pg_clip; dppo_*: 20
  RatioLevel ratio_level = RatioLevel::token;
  std::optional<double> ratio_cap = {};  // TRL's delta of ppo; the cap of cispo_cap
  /// A sequence with A < 0 and a mean of old - lp above this adds 0 (OPSM; TRL
  /// off_policy_mask_threshold); its tokens stay in the counts.
  std::optional<double> off_policy_mask = {};
  double quadratic_coef = 0.1;  // kimi15, prime_rl
  double topr_positive = 1, topr_negative = 1;
  double tis_low = 0, tis_high = 1;
  double tau_pos = 1.0, tau_neg = 1.05;  // sapo
  double clip_cov_ratio = 0.0002, clip_cov_lb = 1, clip_cov_ub = 5;
  double kl_cov_ratio = 0.0002, ppo_kl_coef = 0.1;
  double k_pos = 2, lambda_pos = 3, k_neg = 3, lambda_neg = 2;  // vespo
  double shaping_gamma = 0.1;                                   // luffy
  catalog::Correction correction = {};                          // bypass_mode: its weight
  double rl_coef = 1;
  LossAgg loss_agg = LossAgg::seq_mean_token_mean;
  double entropy_coef = 0;
  bool use_kl_loss = false;
  double kl_loss_coef = 0;
  KlLossOptions kl = {};
};

/// One micro-batch: M positions. logp carries the gradient, entropy may; the others do not.
struct PolicyLossInput {
  at::Tensor logp;  // [M] f32, log-probability of the token given its prefix; or f64, as the rest
  at::Tensor
      old_logp;  // [M] f32, under the policy at the start of the update; undefined = logp, detached
  at::Tensor advantages;  // [M] f32
  at::Tensor mask;        // [M] bool or u8, 1 = counts; undefined = all
  at::Tensor ref_logp;    // [M] f32 or undefined
  at::Tensor entropy;     // [M] f32 or undefined
  at::Tensor weights;     // [M] f32, factor of the token's loss; undefined = 1
  at::Tensor marks;       // [M] 0 or 1, of losses that read them (losses/); undefined = 0
  at::Tensor seq_id;      // [M] i64, sequence of the position in 0 .. seq_count-1
  int64_t seq_count = 0;
  at::Tensor segment_id;  // [M] i64, run of sampled tokens in 0 .. segment_count-1; or undefined
  int64_t segment_count = 0;
};

/// The numbers are actor/pg_loss = agg(l), actor/entropy = agg(H), actor/kl_loss = agg(kl) where
/// the loss has it; per live token what the surrogate names, e.g. actor/clipfrac, and
/// actor/approxkl, k3 of (old -> new), never negative; actor/ratio_max, the largest rho.
struct PolicyLoss {
  at::Tensor total;  // scalar; backward through it
  Numbers numbers;
  at::Tensor tokens = {};  // [M] l, detached; 0 where masked
};

/// Returns the share of this micro-batch. COHORT_CHECK on shapes. May throw c10::Error, which the
/// caller's folder catches.
PolicyLoss policy_loss(const PolicyLossInput& input, const PolicyLossOptions& options,
                       const GlobalCounts& counts);

/// -sum logp / T over mask 1 (the warm start). mask may be undefined (all).
PolicyLoss sft_loss(const at::Tensor& logp, const at::Tensor& mask, const GlobalCounts& counts);

}  // namespace cohort::algorithms
