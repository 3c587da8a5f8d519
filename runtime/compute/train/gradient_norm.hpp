#pragma once
/// The L2 norm of gradients that are cut over ranks, with the same bits for every cut. Pure.
///
/// NORM-1: the largest magnitude is exact; each square is rounded relative to its power of two, on
/// its own, to 52 bits below it; sums of integers have no order. Error: below n * 2^-53 of the
/// largest square, n elements.
#include <cstdint>
#include <span>

namespace cohort::compute {

/// Returns the bits of the largest |value|; NaN and infinities are at least k_not_finite.
uint32_t largest_magnitude(std::span<const float> values);
inline constexpr uint32_t k_not_finite = 0x7F800000;

/// Sum of squares, in units of scale^2 * 2^-26 (high) and scale^2 * 2^-52 (low).
struct SquareSum {
  uint64_t high = 0, low = 0;
  SquareSum& operator+=(const SquareSum& other) {
    high += other.high;
    low += other.low;
    return *this;
  }
  bool operator==(const SquareSum&) const = default;
};

/// REQUIRES: every |value| <= the float with bits `largest` < k_not_finite; fewer than 2^36 values.
SquareSum sum_of_squares(std::span<const float> values, uint32_t largest);
/// Returns the norm of all values that went into `sum`.
double norm_of(const SquareSum& sum, uint32_t largest);

}  // namespace cohort::compute
