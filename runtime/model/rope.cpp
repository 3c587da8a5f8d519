#include "runtime/model/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cohort::model {
namespace {

constexpr double k_turn = 2 * std::numbers::pi;

/// How far element j is divided: 0 for the fast ones, 1 for the slow ones.
class YarnRamp {
 public:
  YarnRamp(const RopeShape& rope, int64_t head_dim) {
    const auto element_of = [&](double turns) {
      return static_cast<double>(head_dim) *
             std::log(rope.original_max_position / (k_turn * turns)) / (2 * std::log(rope.theta));
    };
    low_ = element_of(rope.beta_fast);
    high_ = element_of(rope.beta_slow);
    if (rope.truncate) {
      low_ = std::floor(low_);
      high_ = std::ceil(high_);
    }
    low_ = std::max(low_, 0.0);
    high_ = std::min(high_, static_cast<double>(head_dim - 1));
    if (low_ == high_) high_ += 0.001;
  }
  float operator()(int64_t j) const {
    return std::clamp(
        (static_cast<float>(j) - static_cast<float>(low_)) / static_cast<float>(high_ - low_), 0.0F,
        1.0F);
  }

 private:
  double low_ = 0, high_ = 0;
};

double yarn_attention_factor(const RopeShape& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.mscale != 0 && rope.mscale_all_dim != 0)
    return yarn_magnitude(rope.factor, rope.mscale) /
           yarn_magnitude(rope.factor, rope.mscale_all_dim);
  return yarn_magnitude(rope.factor, 1);
}

Error bad_rope(const std::string& what) {
  return {Errc::invalid_argument, "rotary positions: " + what};
}

/// Of rope_type default.
std::vector<double> exact_frequencies(const RopeShape& rope, int64_t head_dim) {
  std::vector<double> out;
  for (int64_t j = 0; j < head_dim / 2; ++j)
    out.push_back(
        std::pow(rope.theta, -2.0 * static_cast<double>(j) / static_cast<double>(head_dim)));
  return out;
}

/// Wavelengths below O / high are kept, those above O / low divided, those between mixed.
float llama3_scaled(float frequency, const RopeShape& rope) {
  const double length = rope.original_max_position;
  const auto factor = static_cast<float>(rope.factor);
  const float wavelength = 1 / frequency * static_cast<float>(k_turn);
  if (wavelength > static_cast<float>(length / rope.low_freq_factor)) return frequency / factor;
  if (wavelength < static_cast<float>(length / rope.high_freq_factor)) return frequency;
  const float share =
      (1 / wavelength * static_cast<float>(length) - static_cast<float>(rope.low_freq_factor)) /
      static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
  return (1 - share) * frequency / factor + share * frequency;
}

/// Of the scaled types: rounded to f32 after each operation, in the order in which transformers
/// computes them. The last bit of a frequency is up to 1e-4 of a radian at position 1,500.
std::vector<float> scaled_frequencies(const RopeShape& rope, int64_t head_dim) {
  const std::optional<YarnRamp> ramp =
      rope.type == "yarn" ? std::optional<YarnRamp>(YarnRamp(rope, head_dim)) : std::nullopt;
  const auto factor = static_cast<float>(rope.factor);
  std::vector<float> out;
  for (int64_t j = 0; j < head_dim / 2; ++j) {
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(head_dim);
    const float power = std::pow(static_cast<float>(rope.theta), exponent);
    float frequency = 1 / power;
    if (rope.type == "linear") frequency /= factor;
    if (rope.type == "llama3") frequency = llama3_scaled(frequency, rope);
    if (ramp) {
      const float kept = 1 - (*ramp)(j);
      frequency = 1 / (factor * power) * (1 - kept) + frequency * kept;
    }
    out.push_back(frequency);
  }
  return out;
}

}  // namespace

double yarn_magnitude(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

Expected<void> check_rope(const RopeShape& rope) {
  if (rope.type == "dynamic")
    return bad_rope(
        "rope_type dynamic depends on the longest sequence that was seen before, so no result "
        "would be a function of its inputs; use yarn with the same factor");
  if (rope.type != "default" && rope.type != "linear" && rope.type != "llama3" &&
      rope.type != "yarn")
    return bad_rope("rope_type '" + rope.type.substr(0, 64) +
                    "' is not one of default, linear, llama3, yarn");
  const auto is_positive = [](double x) { return std::isfinite(x) && x > 0; };
  if (!(std::isfinite(rope.theta) && rope.theta > 1))
    return bad_rope("rope_theta is not known or not above 1; config.json must say rope_theta");
  if (rope.type == "default") return {};
  if (!is_positive(rope.factor)) return bad_rope("factor must be positive");
  if (rope.type == "linear") return {};
  if (!is_positive(rope.original_max_position))
    return bad_rope("original_max_position_embeddings must be positive");
  if (rope.type == "llama3" &&
      !(is_positive(rope.low_freq_factor) && rope.high_freq_factor > rope.low_freq_factor))
    return bad_rope("high_freq_factor must be above low_freq_factor, both positive");
  if (rope.type == "yarn" && !(is_positive(rope.beta_fast) && is_positive(rope.beta_slow)))
    return bad_rope("beta_fast and beta_slow must be positive");
  if (rope.attention_factor && !is_positive(*rope.attention_factor))
    return bad_rope("attention_factor must be positive");
  return {};
}

RopeFrequencies rope_frequencies(const RopeShape& rope, int64_t head_dim) {
  RopeFrequencies out;
  if (rope.type == "default")
    for (double frequency : exact_frequencies(rope, head_dim))
      out.inverse.push_back(static_cast<float>(frequency));
  else
    out.inverse = scaled_frequencies(rope, head_dim);
  if (rope.type == "yarn") out.attention_factor = static_cast<float>(yarn_attention_factor(rope));
  return out;
}

RopeAngles rope_angles(const RopeShape& rope, int64_t head_dim, int64_t positions) {
  RopeAngles out;
  for (std::vector<float>* table : {&out.cos, &out.sin})
    table->reserve(static_cast<size_t>(positions * head_dim / 2));
  if (rope.type == "default") {  // in f64: the bits of every run so far
    const std::vector<double> exact = exact_frequencies(rope, head_dim);
    for (int64_t position = 0; position < positions; ++position)
      for (const double frequency : exact) {
        const double angle = static_cast<double>(position) * frequency;
        out.cos.push_back(static_cast<float>(std::cos(angle)));
        out.sin.push_back(static_cast<float>(std::sin(angle)));
      }
    return out;
  }
  const RopeFrequencies scaled = rope_frequencies(rope, head_dim);
  for (int64_t position = 0; position < positions; ++position)
    for (const float frequency : scaled.inverse) {
      const float angle = static_cast<float>(position) * frequency;
      out.cos.push_back(std::cos(angle) * scaled.attention_factor);
      out.sin.push_back(std::sin(angle) * scaled.attention_factor);
    }
  return out;
}

}  // namespace cohort::model
