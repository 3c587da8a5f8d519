#include "runtime/tasks/scorers/math_expression.hpp"

#include <algorithm>

namespace cohort::tasks::math {

struct ExpressionParser::Nesting {
  explicit Nesting(ExpressionParser& parser) : parser_(parser) { ++parser_.depth_; }
  ~Nesting() { --parser_.depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  bool is_too_deep() const { return parser_.depth_ > k_max_depth; }

 private:
  ExpressionParser& parser_;
};

int32_t ExpressionParser::add(Op op, int32_t a, int32_t b, char mark) {
  auto& nodes = document_.nodes;
  if (nodes.size() >= k_max_nodes) return -1;
  nodes.push_back({op, mark, a, b, 0});
  return static_cast<int32_t>(nodes.size() - 1);
}

int32_t ExpressionParser::join(Op op, int32_t left, int32_t right) {
  return left < 0 || right < 0 ? -1 : add(op, left, right);
}

int32_t ExpressionParser::add_token(Op op, uint32_t index, char mark) {
  int32_t node = add(op, -1, -1, mark);
  if (node >= 0) document_.nodes.back().token = index;
  return node;
}

int32_t ExpressionParser::parse(uint32_t first, uint32_t last) {
  at_ = first;
  last_ = last;
  depth_ = bars_ = 0;
  return more() ? sum() : -1;
}

int32_t ExpressionParser::scale(int32_t node, int32_t zeros) {
  auto begin = static_cast<uint32_t>(document_.tokens.pool.size());
  document_.tokens.pool += '1';
  document_.words.push_back({Tok::number, 0, false, begin, 1, -zeros});
  int32_t factor = add_token(Op::number, static_cast<uint32_t>(document_.words.size() - 1));
  return join(Op::multiply, node, factor);
}

/// Returns what `kind` does between two products, Op::number if nothing.
static Op sum_operator(Tok kind) {
  return kind == Tok::plus         ? Op::add
         : kind == Tok::minus      ? Op::subtract
         : kind == Tok::plus_minus ? Op::plus_minus
         : kind == Tok::minus_plus ? Op::minus_plus
                                   : Op::number;
}

int32_t ExpressionParser::sum() {
  Nesting nesting(*this);
  if (nesting.is_too_deep()) return -1;
  int32_t left = -1;
  if (next_is(Tok::plus_minus) || next_is(Tok::minus_plus)) {
    Op op = sum_operator(token(at_++).kind);
    int32_t right = product();
    left = right < 0 ? -1 : add(op, right);
  } else {
    left = product();
  }
  while (left >= 0 && more()) {
    Op op = sum_operator(token(at_).kind);
    if (op == Op::number) return left;
    ++at_;
    left = join(op, left, product());
  }
  return left;
}

bool ExpressionParser::starts_factor() const {
  constexpr Tok k_starts[] = {Tok::number,   Tok::variable, Tok::constant,   Tok::infinity,
                              Tok::function, Tok::open,     Tok::open_group, Tok::open_floor,
                              Tok::fraction, Tok::binomial, Tok::root};
  if (!more()) return false;
  Tok kind = token(at_).kind;
  if (kind == Tok::bar) return bars_ == 0;
  return std::ranges::find(k_starts, kind) != std::end(k_starts);
}

/// Factors with *, / or nothing between them, from left to right: 1/2x is x/2.
int32_t ExpressionParser::product() {
  int32_t left = signed_factor();
  while (left >= 0 && more()) {
    Tok kind = token(at_).kind;
    Op op = kind == Tok::divide || kind == Tok::colon ? Op::divide : Op::multiply;
    if (kind == Tok::times || op == Op::divide) {
      ++at_;
      left = join(op, left, signed_factor());
      continue;
    }
    if (!starts_factor()) return left;
    if (kind == Tok::number && token(at_ - 1).kind == Tok::number) return -1;  // "2 3"
    left = join(op, left, factor());
  }
  return left;
}

int32_t ExpressionParser::signed_factor() {
  bool is_negative = false;
  while (next_is(Tok::plus) || next_is(Tok::minus)) is_negative ^= token(at_++).kind == Tok::minus;
  int32_t node = factor();
  if (node < 0 || !is_negative) return node;
  // -2x is -(2x) = (-2)x: the sign may stay with the first factor, but not under its power.
  return add(Op::negate, node);
}

int32_t ExpressionParser::factor() {
  Nesting nesting(*this);
  if (nesting.is_too_deep() || !more()) return -1;
  int32_t node = primary();
  return node < 0 ? -1 : postfix(node);
}

int32_t ExpressionParser::postfix(int32_t base) {
  while (base >= 0 && more()) {
    Tok kind = token(at_).kind;
    Op op = kind == Tok::factorial ? Op::factorial
            : kind == Tok::percent ? Op::percent
            : kind == Tok::degree  ? Op::degree
                                   : Op::power;
    if (op == Op::power && kind != Tok::power) return base;
    ++at_;
    base = op == Op::power ? join(op, base, exponent()) : add(op, base);
  }
  return base;
}

int32_t ExpressionParser::exponent() {
  Nesting nesting(*this);
  if (nesting.is_too_deep()) return -1;
  bool is_negative = false;
  while (next_is(Tok::minus) || next_is(Tok::plus)) is_negative ^= token(at_++).kind == Tok::minus;
  if (!more()) return -1;
  int32_t node = primary();
  if (node >= 0 && next_is(Tok::power)) {
    ++at_;
    node = join(Op::power, node, exponent());
  }
  return node >= 0 && is_negative ? add(Op::negate, node) : node;
}

/// Parses the text before `closing`, wholly, and steps over it.
int32_t ExpressionParser::inside(uint32_t closing) {
  if (closing >= last_) return -1;
  uint32_t outer = last_;
  int outer_bars = bars_;
  last_ = closing;
  bars_ = 0;
  int32_t node = more() ? sum() : -1;
  bool is_whole = at_ == closing;
  last_ = outer;
  bars_ = outer_bars;
  at_ = closing + 1;
  return is_whole ? node : -1;
}

int32_t ExpressionParser::primary() {
  uint32_t index = at_++;
  switch (token(index).kind) {
    case Tok::number:
      --at_;
      return number();
    case Tok::variable:
      --at_;
      return named();
    case Tok::constant:
      return add(Op::constant, -1, -1, token(index).mark);
    case Tok::infinity:
      return add(Op::infinity);
    case Tok::open:
    case Tok::open_group:
      return inside(match_[index]);
    case Tok::open_floor: {
      int32_t node = inside(match_[index]);
      return node < 0 ? -1 : add(token(index).mark == 'f' ? Op::floor : Op::ceiling, node);
    }
    case Tok::fraction:
      return fraction(Op::divide);
    case Tok::binomial:
      return fraction(Op::binomial);
    case Tok::root:
      return root();
    case Tok::function:
      --at_;
      return function();
    case Tok::bar:
      return between_bars();
    default:
      return -1;
  }
}

int32_t ExpressionParser::between_bars() {
  Nesting nesting(*this);
  if (nesting.is_too_deep()) return -1;
  ++bars_;
  int32_t node = more() ? sum() : -1;
  --bars_;
  if (node < 0 || !next_is(Tok::bar)) return -1;
  ++at_;
  return add(Op::absolute, node);
}

int32_t ExpressionParser::number() {
  uint32_t index = at_++;
  int32_t node = add_token(Op::number, index);
  if (next_is(Tok::repeating)) {
    int32_t digits = add_token(Op::number, at_++);
    return digits < 0 ? -1 : add(Op::repeating, node, digits);
  }
  if (token(index).decimals == 0 && node >= 0) return mixed(node, index);
  return node;
}

/// 3\frac{1}{2} and 3 1/2 are 3.5, where the fraction is one of plain numbers and below one.
int32_t ExpressionParser::mixed(int32_t whole, uint32_t whole_token) {
  auto is_less = [&](uint32_t a, uint32_t b) {
    std::string_view x = document_.tokens.text(token(a)), y = document_.tokens.text(token(b));
    return x.size() < y.size() || (x.size() == y.size() && x < y);
  };
  auto is_whole = [&](uint32_t at) {
    return token(at).kind == Tok::number && token(at).decimals == 0;
  };
  if (at_ == whole_token + 1 && at_ + 2 < last_ && is_whole(at_) && is_whole(at_ + 2) &&
      token(at_ + 1).kind == Tok::divide && is_less(at_, at_ + 2)) {
    int32_t top = add_token(Op::number, at_);
    int32_t bottom = add_token(Op::number, at_ + 2);
    at_ += 3;
    return join(Op::add, whole, join(Op::divide, top, bottom));
  }
  if (!next_is(Tok::fraction)) return whole;
  ++at_;
  int32_t part = fraction(Op::divide);
  if (part < 0) return -1;
  const Node &top = document_.at(document_.at(part).a),
             &bottom = document_.at(document_.at(part).b);
  bool is_plain = top.op == Op::number && bottom.op == Op::number && is_whole(top.token) &&
                  is_whole(bottom.token) && is_less(top.token, bottom.token);
  return add(is_plain ? Op::add : Op::multiply, whole, part);
}

/// A variable, or f(a, b): only a list of arguments makes it more than a product.
int32_t ExpressionParser::named() {
  uint32_t index = at_++;
  if (!next_is(Tok::open) || token(at_).mark != '(') return add_token(Op::variable, index);
  uint32_t closing = match_[at_];
  bool has_list = false;
  for (uint32_t i = at_ + 1; i < closing && closing < last_; ++i) {
    if (token(i).kind == Tok::comma) has_list = true;
    if (match_[i] > i) i = match_[i];
  }
  if (!has_list) return add_token(Op::variable, index);
  int32_t chain = many_arguments();
  if (chain < 0) return -1;
  int32_t node = add_token(Op::apply, index);
  if (node >= 0) document_.nodes.back().a = chain;
  return node;
}

/// Parses "(a, b, …)" into a chain.
int32_t ExpressionParser::many_arguments() {
  uint32_t closing = match_[at_];
  if (closing >= last_) return -1;
  std::vector<int32_t> arguments;
  uint32_t begin = ++at_;
  for (uint32_t i = begin; i <= closing; ++i) {
    if (i == closing || token(i).kind == Tok::comma) {
      int32_t node = inside(i);  // steps over the comma or the bracket
      if (node < 0) return -1;
      arguments.push_back(node);
    } else if (match_[i] > i) {
      i = match_[i];
    }
  }
  int32_t chain = -1;
  for (size_t i = arguments.size(); i-- > 0;) {
    chain = add(Op::chain, arguments[i], chain);
    if (chain < 0) return -1;
  }
  return chain;
}

/// An argument of \frac and the like: a group, one digit, or one item.
int32_t ExpressionParser::argument() {
  Nesting nesting(*this);
  if (nesting.is_too_deep() || !more()) return -1;
  Token next = token(at_);
  if (next.kind != Tok::number || next.decimals != 0) return primary();
  if (next.size < 2) return add_token(Op::number, at_++);
  // \frac12: the token is split, its first digit is the argument.
  int32_t node = add_token(Op::number, at_);
  if (node < 0) return -1;
  document_.words.push_back(next);
  document_.words.back().size = 1;
  document_.nodes.back().token = static_cast<uint32_t>(document_.words.size() - 1);
  Token& rest = document_.words[at_];
  ++rest.begin;
  --rest.size;
  return node;
}

int32_t ExpressionParser::fraction(Op op) {
  int32_t top = argument();
  return join(op, top, top < 0 ? -1 : argument());
}

int32_t ExpressionParser::root() {
  Nesting nesting(*this);
  if (nesting.is_too_deep() || !more()) return -1;
  int32_t degree = -1;
  if (next_is(Tok::open) && token(at_).mark == '[') {
    uint32_t closing = match_[at_++];
    degree = inside(closing);
    if (degree < 0 || !more()) return -1;
  }
  int32_t radicand = primary();  // \sqrt13 is meant as the root of 13
  return radicand < 0 ? -1 : add(Op::root, degree, radicand);
}

int32_t ExpressionParser::function() {
  Nesting nesting(*this);
  if (nesting.is_too_deep()) return -1;
  uint32_t index = at_++;
  auto id = static_cast<Function>(token(index).mark);
  int32_t power = -1, base = -1;
  for (int i = 0; i < 2 && more(); ++i) {
    if (next_is(Tok::power) && power < 0) {
      ++at_;
      if ((power = exponent()) < 0) return -1;
    } else if (next_is(Tok::under) && base < 0) {
      ++at_;
      if ((base = argument()) < 0) return -1;
    }
  }
  int32_t node = -1;
  bool is_many = id == Function::maximum || id == Function::minimum || id == Function::formal;
  if (is_many && next_is(Tok::open)) {
    int32_t chain = many_arguments();
    if (chain < 0) return -1;
    node = add(Op::function, chain, -1, token(index).mark);
    if (node >= 0) document_.nodes.back().token = index;
  } else {
    int32_t argument = is_many ? -1 : function_argument();
    if (argument < 0) return -1;
    bool is_base_used = id == Function::logarithm;
    if (base >= 0 && !is_base_used) return -1;
    node = add(Op::function, argument, base, token(index).mark);
  }
  if (node < 0 || power < 0) return node;
  // \sin^{-1} is the inverse, not the reciprocal.
  const Node& exponent_node = document_.at(power);
  bool is_inverse = exponent_node.op == Op::negate &&
                    document_.at(exponent_node.a).op == Op::number &&
                    document_.text(document_.at(exponent_node.a)) == "1";
  if (!is_inverse) return add(Op::power, node, power);
  Function inverse = id == Function::sine      ? Function::arcsine
                     : id == Function::cosine  ? Function::arccosine
                     : id == Function::tangent ? Function::arctangent
                                               : Function::formal;
  if (inverse == Function::formal) return -1;
  document_.nodes[static_cast<size_t>(node)].mark = static_cast<char>(inverse);
  return node;
}

/// A bracket alone, or factors without sign up to the next function or bracket: \sin 2x \cos x.
int32_t ExpressionParser::function_argument() {
  if (!more()) return -1;
  if (next_is(Tok::open) || next_is(Tok::open_group)) return primary();
  bool is_negative = next_is(Tok::minus);
  if (is_negative) ++at_;
  int32_t node = factor();
  while (node >= 0 && starts_factor()) {
    Tok kind = token(at_).kind;
    if (kind == Tok::function || kind == Tok::open || kind == Tok::bar) break;
    if (kind == Tok::number && token(at_ - 1).kind == Tok::number) return -1;
    node = join(Op::multiply, node, factor());
  }
  return node >= 0 && is_negative ? add(Op::negate, node) : node;
}

}  // namespace cohort::tasks::math
