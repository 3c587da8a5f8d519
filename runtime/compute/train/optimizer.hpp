#pragma once
/// AdamW on pieces of the parameters. Torch-free pure functions over f32 memory (fp32 master).
/// Elementwise: pieces may be cut anywhere.
#include <cstdint>

#include "runtime/compute/train/train_engine.hpp"

namespace cohort::compute {

/// What all pieces of one step share.
struct AdamwScale {
  float grad_scale = 1, learning_rate = 0, beta1 = 0, beta2 = 0, eps = 0;
  float weight_decay = 0;  // of pieces that are decayed
  float bias1 = 1, bias2 = 1;
};

/// Of AdamW step number `step` (1, 2, …) with gradients of L2 norm `norm`, clipped to
/// options.max_grad_norm.
AdamwScale adamw_scale(const OptimizerOptions& options, double norm, double learning_rate,
                       uint64_t step);

struct AdamwPiece {
  float *parameters = nullptr, *m = nullptr, *v = nullptr;
  const float* gradients = nullptr;
  int64_t count = 0;
  bool is_decayed = false;
};
void adamw_step(const AdamwPiece& piece, const AdamwScale& scale);

}  // namespace cohort::compute
