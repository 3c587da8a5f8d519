#include "runtime/compute/train/gradient_norm.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace cohort::compute {
namespace {

/// Power of two above the magnitude: squares scaled by it are below 1.
int exponent_above(uint32_t largest) {
  return largest == 0 ? 0 : std::ilogb(std::bit_cast<float>(largest)) + 1;
}

// Adding and subtracting 1.5 * 2^52 rounds a double of at most 2^51 to an integer.
double rounded(double value) {
  constexpr double k_magic = 6755399441055744.0;
  return (value + k_magic) - k_magic;
}

}  // namespace

uint32_t largest_magnitude(std::span<const float> values) {
  uint32_t most = 0;
  for (const float value : values)
    most = std::max(most, std::bit_cast<uint32_t>(value) & 0x7FFFFFFF);
  return most;
}

SquareSum sum_of_squares(std::span<const float> values, uint32_t largest) {
  constexpr size_t k_lanes = 8, k_block = size_t{1} << 20;  // 2^20 highs of 2^26 are exact in f64
  constexpr double k_step = 67108864.0;                     // 2^26
  const double scale = std::ldexp(1.0, -exponent_above(largest));
  SquareSum sum;
  for (size_t begin = 0; begin < values.size(); begin += k_block) {
    const std::span<const float> block =
        values.subspan(begin, std::min(k_block, values.size() - begin));
    double high[k_lanes] = {}, low[k_lanes] = {};
    auto add = [&](size_t lane, float value) {
      const double scaled = static_cast<double>(value) * scale;
      const double square = scaled * scaled * k_step;
      const double whole = rounded(square);
      high[lane] += whole;
      low[lane] += rounded((square - whole) * k_step) + k_step;  // never negative
    };
    size_t i = 0;
    for (; i + k_lanes <= block.size(); i += k_lanes)
      for (size_t lane = 0; lane < k_lanes; ++lane) add(lane, block[i + lane]);
    for (; i < block.size(); ++i) add(0, block[i]);
    for (size_t lane = 0; lane < k_lanes; ++lane) {
      sum.high += static_cast<uint64_t>(high[lane]);
      sum.low += static_cast<uint64_t>(low[lane]);
    }
    sum.high -= block.size();  // the k_step that each low got
  }
  return sum;
}

double norm_of(const SquareSum& sum, uint32_t largest) {
  const double total = std::ldexp(static_cast<double>(sum.high + (sum.low >> 26)), -26) +
                       std::ldexp(static_cast<double>(sum.low & 0x3FFFFFF), -52);
  return std::ldexp(std::sqrt(total), exponent_above(largest));
}

}  // namespace cohort::compute
