// The exact value of an expression in the field.
#include <algorithm>
#include <optional>

#include "runtime/base/rng.hpp"
#include "runtime/tasks/scorers/math_value.hpp"

namespace cohort::tasks::math {
namespace {

__extension__ using Wide = unsigned __int128;

// The greatest prime below 2^61 that is 1 mod 4, so that -1 has a root in the field.
constexpr uint64_t k_prime = 2305843009213693921;
constexpr uint64_t k_root_of_minus_one = 583529827753931384;
constexpr int64_t k_max_factorial = 3000;

uint64_t add(uint64_t a, uint64_t b) {
  uint64_t sum = a + b;
  return sum >= k_prime ? sum - k_prime : sum;
}

uint64_t power(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = field_multiply(result, base);
    base = field_multiply(base, base);
  }
  return result;
}

uint64_t hash(std::string_view text, uint64_t seed) {
  uint64_t h = mix64(seed + text.size());
  for (char c : text) h = mix64(h ^ static_cast<unsigned char>(c));
  return h % k_prime;
}

class ResidueEvaluator {
 public:
  ResidueEvaluator(const Value& scalar, uint32_t seed, Budget& budget)
      : document_(*scalar.owner), sign_(scalar.sign), seed_(seed), budget_(budget) {}

  Residue of(int32_t index) {
    if (!budget_.take()) return {};
    const Node& node = document_.at(index);
    switch (node.op) {
      case Op::number:
        return {literal(node), true};
      case Op::variable:
        return {hash(document_.text(node), seed_), true};
      case Op::constant:
        if (node.mark == 'i') return {k_root_of_minus_one, true};
        return {hash(node.mark == 'p' ? "pi" : "constant e", 77), true};
      case Op::infinity:
        return {hash("infinity", 77), true};
      case Op::add:
      case Op::subtract:
      case Op::multiply:
      case Op::divide:
      case Op::plus_minus:
      case Op::minus_plus:
        return binary(node);
      case Op::negate:
        return combine(Op::subtract, {0, true}, of(node.a));
      case Op::power:
        return powered(node);
      case Op::percent:
        return combine(Op::divide, of(node.a), {100, true});
      case Op::degree:
        return combine(Op::divide, combine(Op::multiply, of(node.a), {hash("pi", 77), true}),
                       {180, true});
      case Op::repeating:
        return repeating(node);
      case Op::factorial:
        return factorial(node);
      case Op::binomial:
        return binomial(node);
      case Op::root:
      case Op::function:
      case Op::absolute:
      case Op::floor:
      case Op::ceiling:
      case Op::apply:
      case Op::chain:
        return formal(node);
    }
    return {};
  }

 private:
  uint64_t literal(const Node& node) {
    uint64_t value = 0;
    std::string_view digits = document_.text(node);
    for (char c : digits) value = add(field_multiply(value, 10), static_cast<uint64_t>(c - '0'));
    int32_t decimals = document_.words[node.token].decimals;
    uint64_t scale = power(10, static_cast<uint64_t>(std::abs(decimals)));
    return field_multiply(value, decimals > 0 ? power(scale, k_prime - 2) : scale);
  }

  static Residue combine(Op op, Residue a, Residue b) {
    Residue out{0, a.is_known && b.is_known, a.is_formal || b.is_formal};
    if (op == Op::add) out.value = add(a.value, b.value);
    if (op == Op::subtract) out.value = field_subtract(a.value, b.value);
    if (op == Op::multiply) out.value = field_multiply(a.value, b.value);
    if (op == Op::divide) {
      out.is_known = out.is_known && b.value != 0;
      if (out.is_known)
        out.value = b.value == 1 ? a.value : field_multiply(a.value, power(b.value, k_prime - 2));
    }
    return out;
  }

  Residue binary(const Node& node) {
    bool has_choice = node.op == Op::plus_minus || node.op == Op::minus_plus;
    if (!has_choice) return combine(node.op, of(node.a), of(node.b));
    bool is_plus = (node.op == Op::plus_minus) == (sign_ >= 0);
    Residue left = node.b < 0 ? Residue{0, true} : of(node.a);
    Residue right = of(node.b < 0 ? node.a : node.b);
    if (sign_ == 0) right = combine(Op::multiply, right, {hash("both signs", 77), true});
    return combine(is_plus ? Op::add : Op::subtract, left, right);
  }

  /// Returns the value of a node that is a whole number of at most 18 digits.
  std::optional<int64_t> whole(int32_t index, int depth = 0) {
    const Node& node = document_.at(index);
    if (depth > 8) return std::nullopt;
    if (node.op == Op::number) {
      std::string_view digits = document_.text(node);
      if (document_.words[node.token].decimals != 0 || digits.size() > 18) return std::nullopt;
      int64_t value = 0;
      for (char c : digits) value = value * 10 + (c - '0');
      return value;
    }
    if (node.op == Op::negate) {
      auto inner = whole(node.a, depth + 1);
      return inner ? std::optional(-*inner) : std::nullopt;
    }
    if (node.op != Op::add && node.op != Op::subtract && node.op != Op::multiply)
      return std::nullopt;
    auto a = whole(node.a, depth + 1), b = whole(node.b, depth + 1);
    int64_t out = 0;
    if (!a || !b) return std::nullopt;
    bool overflows = node.op == Op::add        ? __builtin_add_overflow(*a, *b, &out)
                     : node.op == Op::subtract ? __builtin_sub_overflow(*a, *b, &out)
                                               : __builtin_mul_overflow(*a, *b, &out);
    constexpr int64_t k_most = 1'000'000'000'000'000'000;
    if (overflows || out > k_most || out < -k_most) return std::nullopt;
    return out;
  }

  Residue powered(const Node& node) {
    auto exponent = whole(node.b);
    if (!exponent) return formal(node);
    Residue base = of(node.a);
    if (*exponent <= 0 && base.value == 0) return {};  // 0^0 too
    base.value = power(base.value, static_cast<uint64_t>(std::abs(*exponent)));
    return *exponent < 0 ? combine(Op::divide, {1, true}, base) : base;
  }

  Residue repeating(const Node& node) {
    const Node &number = document_.at(node.a), &digits = document_.at(node.b);
    int32_t decimals = document_.words[number.token].decimals;
    uint64_t scale = power(10, static_cast<uint64_t>(std::max(decimals, 0)));
    uint64_t nines = field_subtract(power(10, document_.text(digits).size()), 1);
    Residue tail =
        combine(Op::divide, {literal(digits), true}, {field_multiply(scale, nines), true});
    return combine(Op::add, {literal(number), true}, tail);
  }

  Residue factorial(const Node& node) {
    auto n = whole(node.a);
    if (!n || *n < 0 || *n > k_max_factorial) return formal(node);
    if (!budget_.take(static_cast<uint64_t>(*n))) return {};
    uint64_t value = 1;
    for (int64_t i = 2; i <= *n; ++i) value = field_multiply(value, static_cast<uint64_t>(i));
    return {value, true};
  }

  Residue binomial(const Node& node) {
    auto n = whole(node.a), k = whole(node.b);
    if (!n || !k || *n < 0 || *k < 0) return formal(node);
    if (*k > *n) return {0, true};
    int64_t count = std::min(*k, *n - *k);
    if (count > k_max_factorial) return formal(node);
    if (!budget_.take(static_cast<uint64_t>(count))) return {};
    Residue top{1, true}, bottom{1, true};
    for (int64_t i = 0; i < count; ++i) {
      top.value = field_multiply(top.value, static_cast<uint64_t>(*n - i) % k_prime);
      bottom.value = field_multiply(bottom.value, static_cast<uint64_t>(i + 1));
    }
    return combine(Op::divide, top, bottom);
  }

  /// A function of its arguments' residues that nothing is known of but its name.
  Residue formal(const Node& node) {
    uint64_t h =
        mix64(static_cast<uint64_t>(node.op) * 256 + static_cast<unsigned char>(node.mark));
    bool is_named = node.op == Op::apply || (node.op == Op::function &&
                                             static_cast<Function>(node.mark) == Function::formal);
    if (is_named) h = mix64(h ^ hash(document_.text(node), 5));
    for (int32_t child : {node.a, node.b}) {
      if (child < 0) {
        h = mix64(h + 1);
        continue;
      }
      Residue inner = of(child);
      if (!inner.is_known) return {};
      h = mix64(h ^ inner.value);
    }
    return {h % k_prime, true, true};
  }

  const Document& document_;
  int sign_;
  uint32_t seed_;
  Budget& budget_;
};

}  // namespace

uint64_t field_subtract(uint64_t a, uint64_t b) { return a >= b ? a - b : a + k_prime - b; }

uint64_t field_multiply(uint64_t a, uint64_t b) {
  // 2^61 is 31 in the field: the upper bits are folded onto the lower ones, twice.
  constexpr uint64_t k_mask = (uint64_t{1} << 61) - 1;
  constexpr uint64_t k_fold = k_mask + 1 - k_prime;
  Wide product = static_cast<Wide>(a) * b;
  product = (product & k_mask) + (product >> 61) * k_fold;
  product = (product & k_mask) + (product >> 61) * k_fold;
  auto folded = static_cast<uint64_t>(product);
  return folded >= k_prime ? folded - k_prime : folded;
}

Residue residue_of(const Value& scalar, uint32_t seed, Budget& budget) {
  Residue value = ResidueEvaluator(scalar, seed, budget).of(scalar.node);
  if (scalar.is_negated) value.value = field_subtract(0, value.value);
  return value;
}

}  // namespace cohort::tasks::math
