#pragma once
/// AdamW on the flat parameter buffer. Torch-free pure functions over f32 memory (fp32 master).
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/model.hpp"
#include "runtime/compute/train_engine.hpp"

namespace cohort::compute {

/// A contiguous piece of the flat buffer with one decay setting.
struct DecayRange {
  int64_t offset = 0, count = 0;  // [elements]
  bool is_decayed = false;
  bool operator==(const DecayRange&) const = default;
};

/// Returns ranges that cover the flat buffer once, in order, neighbours merged; padding goes with
/// its group.
std::vector<DecayRange> decay_ranges(const ParameterLayout& layout);

struct FlatState {
  std::span<float> parameters, m, v;
  std::span<const float> gradients;
};

/// Returns the L2 norm of `gradients` (f64 sum in a fixed order).
double gradient_norm(std::span<const float> gradients);

/// Clips to options.max_grad_norm and takes AdamW step number `step` (1, 2, …). Returns the norm
/// before clipping, or Errc::compute, changing nothing, if it is not finite (TRAIN-2).
Expected<double> adamw_step(const FlatState& state, std::span<const DecayRange> ranges,
                            const OptimizerOptions& options, double learning_rate, uint64_t step);

}  // namespace cohort::compute
