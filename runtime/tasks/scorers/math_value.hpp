#pragma once
/// The value of an expression, two ways. Exactly: in a field of 2^61 elements, with a fixed
/// pseudo-random element for each variable, so that x(x+1) and x^2+x agree and numbers of any
/// length never overflow. Numerically: complex, with a bound of the rounding error carried along.
/// Pure. MATH-2: the work of one comparison is bounded by its Budget; beyond it nothing has a
/// value.
#include <complex>
#include <cstdint>

#include "runtime/tasks/scorers/math_tree.hpp"

namespace cohort::tasks::math {

/// Evaluation steps that one comparison may take.
struct Budget {
  uint64_t steps = 100'000;
  /// Takes `count`; false if they are not there.
  bool take(uint64_t count = 1) {
    if (steps < count) return steps = 0, false;
    steps -= count;
    return true;
  }
};

/// An element of the field.
struct Residue {
  uint64_t value = 0;
  bool is_known = false;   // false: a division by zero
  bool is_formal = false;  // it hides a function or root: equal residues mean equal values, but
                           // different ones mean nothing
};

struct Numeric {
  std::complex<double> value;
  double error = 0;         // |value - what is meant| is below, to first order
  bool is_known = false;    // false: undefined here, too large, or known too badly
  bool left_reals = false;  // a root or logarithm of a negative number was taken on the way
};

constexpr uint32_t k_points = 7;           // sets of values for the variables
constexpr uint32_t k_positive_points = 4;  // in the first of them all are positive

/// `seed` chooses the elements of the variables.
Residue residue_of(const Value& scalar, uint32_t seed, Budget& budget);
Numeric numeric_at(const Value& scalar, uint32_t point, Budget& budget);
bool has_variables(const Value& scalar);

/// Field arithmetic, for combining residues.
uint64_t field_subtract(uint64_t a, uint64_t b);
uint64_t field_multiply(uint64_t a, uint64_t b);

}  // namespace cohort::tasks::math
