#pragma once
/// The critic's loss and what its values explain. PPO's clipped value loss (arXiv 1707.06347,
/// section 5, with the clip of its reference code), as ROLL, verl and OpenRLHF write it:
///   l = 1/2 max((v - R)^2, (clip(v, v_old - c, v_old + c) - R)^2), or 1/2 (v - R)^2 without c
/// ALG-3 and ALG-4 hold as for policy losses (aggregation.hpp). No state; a call runs on the
/// caller's thread under its autograd mode.
#include <cstdint>
#include <optional>
#include <span>

#include "algorithms/aggregation.hpp"
#include "runtime/base/numbers.hpp"

namespace cohort::algorithms {

/// One micro-batch: M positions. values carries the gradient.
struct ValueLossInput {
  at::Tensor values;      // [M] f32 or f64
  at::Tensor old_values;  // [M] likewise, when the update began; needed with value_clip
  at::Tensor returns;     // [M] raw advantages + old values
  TokenPlaces places;
};

struct ValueLossOptions {
  std::optional<double> value_clip = {};            // c; none: no clip
  LossAgg loss_agg = LossAgg::seq_mean_token_mean;  // ROLL's; verl's is token-mean
};

/// critic/vf_loss = agg(l); critic/vf_clipfrac, the share of the tokens whose clipped side is the
/// worse one; critic/vpred_mean, the mean value of a token.
struct ValueLoss {
  at::Tensor total;  // scalar; backward through it
  Numbers numbers;
};

/// Returns the share of this micro-batch. COHORT_CHECK on shapes. May throw c10::Error, which the
/// caller's folder catches.
ValueLoss value_loss(const ValueLossInput& input, const ValueLossOptions& options,
                     const GlobalCounts& counts);

}  // namespace cohort::algorithms
