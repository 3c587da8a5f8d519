#pragma once
/// An answer as a list of values, and the expressions inside them. Owner: one comparison; one
/// thread. MATH-1: parse() needs at most k_max_nodes nodes, k_max_depth nested calls and linear
/// work per level, whatever the text; what exceeds them, or is not understood, becomes a text,
/// which equals the same text only.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tasks/scorers/math_tokens.hpp"

namespace cohort::tasks::math {

constexpr size_t k_max_bytes = 1500;  // of an answer that is parsed; a longer one is a text
constexpr size_t k_max_nodes = 1500;
constexpr int k_max_depth = 40;

enum class Op : uint8_t {
  number,
  variable,
  constant,  // mark: 'p', 'e', 'i'
  infinity,
  add,
  subtract,
  multiply,
  divide,
  negate,
  power,
  root,      // a-th root of b
  function,  // mark: Function; a: argument, b: base of a logarithm, second of max and min
  factorial,
  binomial,
  absolute,
  floor,
  ceiling,
  percent,
  degree,
  plus_minus,  // a ± b; without b: ± a
  minus_plus,
  repeating,  // number a with the digits of token b repeated for ever
  apply,      // f(a, b, …): items a … of the chain
  chain,      // a: an argument, b: the next link or -1
};

struct Node {
  Op op = Op::number;
  char mark = 0;
  int32_t a = -1, b = -1;
  uint32_t token = 0;  // of a number, variable, apply, repeating
};

struct Document;

/// One value. `first` … `last` are its tokens.
struct Value {
  enum class Kind : uint8_t { scalar, sequence, set, matrix, relation, text };
  Kind kind = Kind::text;
  const Document* owner = nullptr;
  uint32_t first = 0, last = 0;
  int32_t node = -1;         // scalar
  int sign = 0;              // scalar: which sign ± stands for, 0: both at once
  bool is_negated = false;   // scalar
  std::string unit;          // scalar: "cm", "_8"; lower case
  char open = 0, close = 0;  // sequence; ':' both: a ratio; matrix: open
  uint32_t columns = 0;      // matrix
  std::string relations;     // relation: one mark between two items
  std::vector<Value> items;  // sequence, set, matrix (row by row), relation (its sides)
};

/// An answer: the items of its list, one for a plain answer. Not movable: values point to it.
struct Document {
  Tokens tokens;
  std::vector<Token> words;  // what nodes point to: the tokens, and digits split off by \frac12
  std::vector<Node> nodes;
  std::vector<Value> items;

  explicit Document(Tokens list);
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  const Node& at(int32_t node) const { return nodes[static_cast<size_t>(node)]; }
  std::string_view text(const Node& node) const { return tokens.text(words[node.token]); }
};

/// Nodes that every document has.
constexpr int32_t k_infinity = 0, k_minus_infinity = 1;

/// Returns the tokens of `value` as one text: words in lower case if it has nothing but letters.
std::string spelled(const Value& value);
/// True if the value is a name that an equation may define: x, f(x), A_1.
bool is_name(const Value& value);

}  // namespace cohort::tasks::math
