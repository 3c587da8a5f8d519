#pragma once
/// Rotary positions of a decoder: what config.json says of them, and the frequencies that follow.
/// Pure value types and functions.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::model {

/// rope_scaling (transformers 4) or rope_parameters (5). Fields that `type` does not have keep
/// their defaults.
struct RopeShape {
  std::string type = "default";      // HF's rope_type: default, linear, llama3, yarn
  double theta = 10000;              // 0: not known
  double factor = 1;                 // all but default
  double original_max_position = 0;  // [tokens] llama3, yarn
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn, as the next four
  bool truncate = true;
  std::optional<double> attention_factor = {};
  double mscale = 0, mscale_all_dim = 0;

  bool operator==(const RopeShape&) const = default;
};

/// Angle of element j of a head at a position = position * inverse[j], rounded to f32 as the
/// reference does; cos and sin are multiplied by attention_factor.
struct RopeFrequencies {
  std::vector<float> inverse;  // [head_dim / 2]
  float attention_factor = 1;
};

/// Returns Errc::invalid_argument, naming the key, for a type that has no frequencies of its own
/// (dynamic: they depend on the calls before; longrope) and for numbers out of range.
Expected<void> check_rope(const RopeShape& rope);

/// Returns the frequencies of heads of `head_dim` elements. REQUIRES: check_rope passed; head_dim
/// is even. Formulas: transformers' modeling_rope_utils; llama3 and yarn are static, that is, they
/// hold at every length.
RopeFrequencies rope_frequencies(const RopeShape& rope, int64_t head_dim);

/// cos and sin of every position below `positions`, [positions, head_dim / 2] row-major.
struct RopeAngles {
  std::vector<float> cos, sin;
};
RopeAngles rope_angles(const RopeShape& rope, int64_t head_dim, int64_t positions);

/// Returns yarn's m(factor, scale): 1 up to factor 1, else 0.1 * scale * ln(factor) + 1. Latent
/// attention scales its scores by m(factor, mscale_all_dim)^2.
double yarn_magnitude(double factor, double scale);

}  // namespace cohort::model
