#pragma once
/// Per-token estimators of KL(policy || reference) and the controller of its coefficient. Pure; std
/// only. Source: J. Schulman, "Approximating KL Divergence" (2020). With d = ref - lp:
///   k1  -d            (ROLL and verl "kl")       abs  |d|
///   k2  d^2 / 2       (ROLL and verl "mse")      k3   clamp(e^d - d - 1, -10, 10)   ("low_var_kl")
/// As verl, d is clamped to +-20 before e^d; the result's clamp hides it, it only keeps e^d finite.
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/catalog/catalog.hpp"

namespace cohort::algorithms {

using catalog::KlKind;

inline constexpr double k_log_ratio_clamp =
    20;                                   // verl's: e^20 is the largest factor a token may carry
inline constexpr double k_k3_clamp = 10;  // ROLL's and verl's bound on one token's k3

/// Returns the estimate for one token.
double kl_estimate(KlKind kind, double lp, double ref);

/// Coefficient beta of the KL reward: fixed, or steered to a target (Ziegler et al., arXiv
/// 1909.08593, section 2.2; ROLL's and verl's error clip of +-0.2).
class KlController {
 public:
  KlController(double coefficient, std::optional<double> target_kl, double horizon)
      : coefficient_(coefficient), target_kl_(target_kl), horizon_(horizon) {}
  double coefficient() const { return coefficient_; }
  /// beta <- beta (1 + clip(kl/target - 1, +-0.2) batch_size / horizon). Nothing happens without a
  /// target.
  void update(double kl, double batch_size);
  /// Restores a checkpoint's coefficient.
  void restore(double coefficient) { coefficient_ = coefficient; }

 private:
  double coefficient_;
  std::optional<double> target_kl_;
  double horizon_;  // [trajectories]
};

/// Returns the batch mean of the per-sequence means of `kl` where mask is 1; a sequence without
/// such a token counts with 0 (the current_kl of verl's apply_kl_penalty); 0 if there are none.
/// cu_seqlens: [S + 1].
double sequence_mean(std::span<const double> kl, std::span<const uint8_t> mask,
                     std::span<const int32_t> cu_seqlens);

}  // namespace cohort::algorithms
