#pragma once
/// The words of a mathematical answer, written as LaTeX, Unicode or plain text. Typesetting (\left,
/// \displaystyle, spaces, $) is gone; an unknown command stays as a symbol, so that two answers can
/// still be compared token by token. Pure; linear in the text.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::tasks::math {

enum class Tok : uint8_t {
  number,    // digits; value = digits / 10^decimals
  variable,  // with its subscript and primes: "x_1", "f'", "\alpha"
  word,      // of a text, a unit, a name
  function,  // mark: Function
  constant,  // mark: 'p' pi, 'e', 'i'
  infinity,
  plus,
  minus,
  plus_minus,
  minus_plus,
  times,
  divide,
  power,
  factorial,
  percent,
  degree,
  colon,
  comma,      // separates the items of a list
  separator,  // so do "or", "and", ';', \cup
  open,       // mark: '(' or '['
  close,      // mark: ')' or ']'
  open_set,
  close_set,
  open_group,
  close_group,
  open_floor,  // mark: 'f' floor, 'c' ceiling
  close_floor,
  bar,
  fraction,
  binomial,
  root,
  relation,   // mark: = < > l(<=) g(>=) n(!=) i(in) ~(approx)
  under,      // _ behind a function
  subscript,  // of a number: its base
  repeating,  // \overline{digits} behind a number
  open_matrix,
  close_matrix,
  column,
  row,
  symbol,  // anything else
};

enum class Function : uint8_t {
  sine,
  cosine,
  tangent,
  cotangent,
  secant,
  cosecant,
  arcsine,
  arccosine,
  arctangent,
  hyperbolic_sine,
  hyperbolic_cosine,
  hyperbolic_tangent,
  logarithm,     // natural unless a base is given
  logarithm_10,  // lg
  exponential,
  maximum,
  minimum,
  formal,  // gcd, lcm, det, …: known by name only
};

struct Token {
  Tok kind = Tok::symbol;
  char mark = 0;                 // what it is exactly; of a function, its Function
  bool has_space = false;        // before it
  uint32_t begin = 0, size = 0;  // its text in the pool
  int32_t decimals = 0;          // of a number
};

struct Tokens {
  std::string pool;
  std::vector<Token> list;
  bool has_joined_comma = false;  // "1,234" was read as one number

  std::string_view text(const Token& token) const {
    return std::string_view(pool).substr(token.begin, token.size);
  }
};

/// `joins_commas`: "1,234" is one number, not a list of two.
Tokens tokenize(std::string_view text, bool joins_commas);

/// Returns one token in LaTeX: \dfrac as \frac, 1,000.50 as 1000.5.
std::string written(const Tokens& tokens, const Token& token);

/// True if both are the same tokens, whatever space is between them.
bool operator==(const Tokens& a, const Tokens& b);

}  // namespace cohort::tasks::math
