// The complex value of an expression, with a bound of its rounding error.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "runtime/tasks/scorers/math_value.hpp"

namespace cohort::tasks::math {
namespace {

using Complex = std::complex<double>;
constexpr double k_epsilon = 2.3e-16;
constexpr double k_huge = 1e250;
constexpr double k_max_error = 1e-7;  // relative to the value or 1; above, it is not known

uint64_t mix_name(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// Returns the value of variable `name` at `point`: small and larger ones, then of either sign,
/// then all negative, so that |x|, x and branches of both signs are told apart.
double value_of(std::string_view name, uint32_t point) {
  constexpr struct {
    double least, most;
  } k_ranges[k_points] = {{0.6, 2.4}, {2, 7}, {0.05, 0.6}, {8, 20}, {0.3, 3}, {3, 9}, {0.3, 15}};
  uint64_t h = point * 0x9E3779B97F4A7C15u + 1;
  for (char c : name) h = mix_name(h ^ static_cast<unsigned char>(c)) + 0x9E3779B97F4A7C15u;
  h = mix_name(h);
  double share = static_cast<double>(h >> 12) / 4503599627370496.0;
  double x = k_ranges[point].least + (k_ranges[point].most - k_ranges[point].least) * share;
  bool is_negative = point + 1 == k_points || (point >= k_positive_points && (h & 1) != 0);
  return is_negative ? -x : x;
}

Numeric known(Complex value, double error, bool left_reals = false) {
  Numeric out{value, error + k_epsilon * std::abs(value), true, left_reals};
  double size = std::abs(value);
  out.is_known = size < k_huge && out.error <= k_max_error * std::max(size, 1.0);  // false for NaN
  return out;
}

bool is_real(const Numeric& x) { return std::abs(x.value.imag()) <= x.error; }
bool is_negative_real(const Numeric& x) { return is_real(x) && x.value.real() < -x.error; }

Numeric add(const Numeric& a, const Numeric& b, double sign) {
  if (!a.is_known || !b.is_known) return {};
  return known(a.value + sign * b.value, a.error + b.error, a.left_reals || b.left_reals);
}

Numeric multiply(const Numeric& a, const Numeric& b) {
  if (!a.is_known || !b.is_known) return {};
  double error = std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error;
  return known(a.value * b.value, error, a.left_reals || b.left_reals);
}

Numeric divide(const Numeric& a, const Numeric& b) {
  if (!a.is_known || !b.is_known) return {};
  double size = std::abs(b.value);
  if (size <= 4 * b.error) return {};
  Complex value = a.value / b.value;
  return known(value,
               (a.error + std::abs(value) * b.error) / size + 2 * k_epsilon * std::abs(value),
               a.left_reals || b.left_reals);
}

Numeric logarithm(const Numeric& x) {
  double size = std::abs(x.value);
  if (!x.is_known || size <= 4 * x.error) return {};
  return known(std::log(x.value), x.error / size, x.left_reals || is_negative_real(x));
}

Numeric whole_power(const Numeric& a, double exponent) {
  Complex result = 1, base = a.value;
  for (auto n = static_cast<uint64_t>(std::abs(exponent)); n != 0; n >>= 1) {
    if ((n & 1) != 0) result *= base;
    base *= base;
  }
  if (exponent < 0) result = 1.0 / result;
  double size = std::abs(a.value);
  double relative = size == 0 ? 0 : std::abs(exponent) * (a.error / size + 2 * k_epsilon);
  if (size == 0 && exponent <= 0) return {};
  return known(result, std::abs(result) * relative, a.left_reals);
}

Numeric power(const Numeric& a, const Numeric& b) {
  if (!a.is_known || !b.is_known) return {};
  double exponent = b.value.real();
  bool is_whole = b.error <= 1e-14 * std::max(1.0, std::abs(exponent)) && b.value.imag() == 0 &&
                  exponent == std::round(exponent) && std::abs(exponent) < 1e6;
  if (is_whole) return whole_power(a, exponent);
  double size = std::abs(a.value);
  if (size <= 4 * a.error) {  // a root of nothing
    if (exponent <= 0) return {};
    return known(0, std::pow(size + a.error, exponent), a.left_reals || b.left_reals);
  }
  Complex log = std::log(a.value);
  Complex value = std::exp(b.value * log);
  double relative = std::abs(b.value) * a.error / size + std::abs(log) * b.error +
                    4 * k_epsilon * (1 + std::abs(b.value * log));
  return known(value, std::abs(value) * relative,
               a.left_reals || b.left_reals || is_negative_real(a));
}

/// f(x) with the slope of f there.
Numeric applied(const Numeric& x, Complex value, double slope, bool left_reals = false) {
  return known(value, std::abs(slope) * x.error + 4 * k_epsilon * std::abs(value),
               x.left_reals || left_reals);
}

Numeric gamma_of(const Numeric& x) {  // x!
  if (!x.is_known || !is_real(x) || x.value.real() < 0 || x.value.real() > 150) return {};
  double n = x.value.real();
  double value = n == std::round(n) ? std::round(std::tgamma(n + 1)) : std::tgamma(n + 1);
  return known(value, value * (x.error * std::log(n + 2) + 1e-14));
}

Numeric trigonometric(Function id, const Numeric& x) {
  Complex s = std::sin(x.value), c = std::cos(x.value);
  // Near a zero of sine the argument's own rounding is the error.
  Numeric sine = applied(x, s, std::abs(c)), cosine = applied(x, c, std::abs(s));
  Numeric one = known(1, 0);
  switch (id) {
    case Function::sine:
      return sine;
    case Function::cosine:
      return cosine;
    case Function::tangent:
      return divide(sine, cosine);
    case Function::cotangent:
      return divide(cosine, sine);
    case Function::secant:
      return divide(one, cosine);
    default:
      return divide(one, sine);
  }
}

Numeric inverse(Function id, const Numeric& x) {
  if (id == Function::arctangent)
    return applied(x, std::atan(x.value), 1 / std::max(1e-9, std::abs(1.0 + x.value * x.value)));
  bool leaves = is_real(x) && std::abs(x.value.real()) > 1 + x.error;
  Complex value = id == Function::arcsine ? std::asin(x.value) : std::acos(x.value);
  double root = std::abs(std::sqrt(1.0 - x.value * x.value));
  double error = root > 1e-7 ? x.error / root : 2 * std::sqrt(x.error + k_epsilon);
  return known(value, error, x.left_reals || leaves);
}

Numeric function_of(Function id, const Numeric& x) {
  if (!x.is_known) return {};
  if (id <= Function::cosecant) return trigonometric(id, x);  // in the order of their list
  if (id <= Function::arctangent) return inverse(id, x);
  switch (id) {
    case Function::hyperbolic_sine:
      return applied(x, std::sinh(x.value), std::abs(std::cosh(x.value)));
    case Function::hyperbolic_cosine:
      return applied(x, std::cosh(x.value), std::abs(std::sinh(x.value)));
    case Function::hyperbolic_tangent:
      return applied(x, std::tanh(x.value), 1);
    case Function::logarithm:
      return logarithm(x);
    case Function::logarithm_10:
      return divide(logarithm(x), known(std::numbers::ln10, 0));
    case Function::exponential: {
      Complex value = std::exp(x.value);
      return applied(x, value, std::abs(value));
    }
    default:
      return {};
  }
}

class Evaluator {
 public:
  Evaluator(const Value& scalar, uint32_t point, Budget& budget)
      : document_(*scalar.owner), sign_(scalar.sign), point_(point), budget_(budget) {}

  Numeric of(int32_t index) {
    if (!budget_.take()) return {};
    const Node& node = document_.at(index);
    switch (node.op) {
      case Op::number:
        return literal(node);
      case Op::variable:
        return known(value_of(document_.text(node), point_), 0);
      case Op::constant:
        if (node.mark == 'i') return {Complex(0, 1), 0, true, false};
        return known(node.mark == 'p' ? std::numbers::pi : std::numbers::e, 0);
      case Op::add:
        return add(of(node.a), of(node.b), 1);
      case Op::subtract:
        return add(of(node.a), of(node.b), -1);
      case Op::multiply:
        return multiply(of(node.a), of(node.b));
      case Op::divide:
        return divide(of(node.a), of(node.b));
      case Op::negate:
        return multiply(exactly(-1), of(node.a));
      case Op::power:
        return power(of(node.a), of(node.b));
      case Op::root:
        return root(node);
      case Op::function:
        return function(node);
      case Op::factorial:
        return gamma_of(of(node.a));
      case Op::binomial:
        return binomial(node);
      case Op::absolute:
        return absolute(of(node.a));
      case Op::floor:
      case Op::ceiling:
        return rounded(node);
      case Op::percent:
        return divide(of(node.a), exactly(100));
      case Op::degree:
        return multiply(of(node.a), known(std::numbers::pi / 180, 0));
      case Op::plus_minus:
      case Op::minus_plus:
        return choice(node);
      case Op::repeating:
        return repeating(node);
      case Op::infinity:
      case Op::apply:
      case Op::chain:
        return {};
    }
    return {};
  }

 private:
  static Numeric exactly(double x) { return {x, 0, true, false}; }

  Numeric literal(const Node& node) const {
    std::string_view digits = document_.text(node);
    int32_t decimals = document_.words[node.token].decimals;
    std::string written(digits);
    written += "e" + std::to_string(-decimals);
    double value = 0;
    auto result = std::from_chars(written.data(), written.data() + written.size(), value);
    if (result.ec != std::errc()) return {};
    bool is_exact = decimals == 0 && value < 9e15;
    return is_exact ? exactly(value) : known(value, 0);
  }

  Numeric choice(const Node& node) {
    if (sign_ == 0) return {};
    double sign = (node.op == Op::plus_minus) == (sign_ > 0) ? 1 : -1;
    return add(node.b < 0 ? exactly(0) : of(node.a), of(node.b < 0 ? node.a : node.b), sign);
  }

  Numeric root(const Node& node) {
    Numeric degree = node.a < 0 ? exactly(2) : of(node.a);
    Numeric x = of(node.b);
    if (!degree.is_known || !x.is_known) return {};
    double n = degree.value.real();
    bool is_odd = degree.error == 0 && std::fmod(n, 2) == 1;
    if (is_odd && is_negative_real(x))  // the real one
      return multiply(exactly(-1), power(multiply(exactly(-1), x), divide(exactly(1), degree)));
    return power(x, divide(exactly(1), degree));
  }

  Numeric function(const Node& node) {
    auto id = static_cast<Function>(node.mark);
    if (id == Function::maximum || id == Function::minimum) return extreme(node);
    if (id == Function::formal) return {};
    Numeric value = function_of(id, of(node.a));
    return node.b < 0 ? value : divide(value, logarithm(of(node.b)));
  }

  Numeric extreme(const Node& node) {
    bool is_max = static_cast<Function>(node.mark) == Function::maximum;
    Numeric best;
    for (int32_t link = node.a; link >= 0; link = document_.at(link).b) {
      Numeric x = of(document_.at(link).a);
      if (!x.is_known || !is_real(x)) return {};
      if (!best.is_known || (x.value.real() > best.value.real()) == is_max) best = x;
    }
    return best;
  }

  Numeric binomial(const Node& node) {
    Numeric n = of(node.a), k = of(node.b);
    return divide(gamma_of(n), multiply(gamma_of(k), gamma_of(add(n, k, -1))));
  }

  static Numeric absolute(const Numeric& x) {
    return x.is_known ? known(std::abs(x.value), x.error, x.left_reals) : Numeric{};
  }

  Numeric rounded(const Node& node) {
    Numeric x = of(node.a);
    if (!x.is_known || !is_real(x)) return {};
    double nearest = std::round(x.value.real());
    bool is_whole = std::abs(x.value.real() - nearest) <= 8 * x.error;
    if (is_whole) return exactly(nearest);
    return exactly(node.op == Op::floor ? std::floor(x.value.real()) : std::ceil(x.value.real()));
  }

  Numeric repeating(const Node& node) {
    const Node &number = document_.at(node.a), &digits = document_.at(node.b);
    int32_t decimals = document_.words[number.token].decimals;
    double nines = std::pow(10.0, static_cast<double>(document_.text(digits).size())) - 1;
    Numeric tail = divide(literal(digits), known(nines * std::pow(10.0, decimals), 0));
    return add(literal(number), tail, 1);
  }

  const Document& document_;
  int sign_;
  uint32_t point_;
  Budget& budget_;
};

bool mentions(const Document& document, int32_t index) {
  const Node& node = document.at(index);
  if (node.op == Op::variable) return true;
  for (int32_t child : {node.a, node.b})
    if (child >= 0 && mentions(document, child)) return true;
  return false;
}

}  // namespace

Numeric numeric_at(const Value& scalar, uint32_t point, Budget& budget) {
  Numeric value = Evaluator(scalar, point, budget).of(scalar.node);
  if (scalar.is_negated) value.value = -value.value;
  return value;
}

bool has_variables(const Value& scalar) { return mentions(*scalar.owner, scalar.node); }

}  // namespace cohort::tasks::math
