#include "runtime/compute/train/gradient_norm.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "runtime/compute/kernels/kernels.hpp"

namespace cohort::compute {
namespace {

/// Power of two above the magnitude: squares scaled by it are below 1.
int exponent_above(uint32_t largest) {
  return largest == 0 ? 0 : std::ilogb(std::bit_cast<float>(largest)) + 1;
}

}  // namespace

uint32_t largest_magnitude(std::span<const float> values) {
  return cpu::kernels().largest_magnitude(values.data(), static_cast<int64_t>(values.size()));
}

SquareSum sum_of_squares(std::span<const float> values, uint32_t largest) {
  const double scale = std::ldexp(1.0, -exponent_above(largest));
  uint64_t sums[2] = {};
  cpu::kernels().square_sums(values.data(), static_cast<int64_t>(values.size()), scale, sums);
  SquareSum sum;
  sum.high = sums[0];
  sum.low = sums[1];
  return sum;
}

double norm_of(const SquareSum& sum, uint32_t largest) {
  const double total = std::ldexp(static_cast<double>(sum.high + (sum.low >> 26)), -26) +
                       std::ldexp(static_cast<double>(sum.low & 0x3FFFFFF), -52);
  return std::ldexp(std::sqrt(total), exponent_above(largest));
}

}  // namespace cohort::compute
