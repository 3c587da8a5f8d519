#pragma once
/// AdamW on pieces of the parameters: the step that all pieces share. Torch-free, pure.
/// Elementwise: pieces may be cut anywhere.
#include <cmath>
#include <cstdint>

#include "runtime/compute/kernels/kernels.hpp"
#include "runtime/compute/train/train_engine.hpp"

namespace cohort::compute {

using cpu::AdamwPiece;
using cpu::AdamwScale;

/// Of AdamW step number `step` (1, 2, …) with gradients of L2 norm `norm`, clipped to
/// options.max_grad_norm.
inline AdamwScale adamw_scale(const OptimizerOptions& options, double norm, double learning_rate,
                              uint64_t step) {
  const bool is_clipped = options.max_grad_norm > 0 && norm > options.max_grad_norm;
  const auto bias = [step](double beta) { return 1 - std::pow(beta, static_cast<double>(step)); };
  const auto f32 = [](double value) { return static_cast<float>(value); };
  return {is_clipped ? f32(options.max_grad_norm / norm) : 1.0f,
          f32(learning_rate),
          f32(options.beta1),
          f32(options.beta2),
          f32(options.eps),
          f32(options.weight_decay),
          f32(bias(options.beta1)),
          f32(bias(options.beta2))};
}

}  // namespace cohort::compute
