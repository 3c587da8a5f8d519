#pragma once
/// Recursive descent from tokens to the nodes of one expression. Owner: a Document under
/// construction. Bounds: MATH-1.
#include <vector>

#include "runtime/tasks/scorers/math_tree.hpp"

namespace cohort::tasks::math {

class ExpressionParser {
 public:
  /// `match`: for each opening token the index of its closing one.
  ExpressionParser(Document& document, const std::vector<uint32_t>& match)
      : document_(document), match_(match) {}

  /// Parses tokens first … last - 1 as far as they are an expression. Returns its node, -1 if it is
  /// none; end() is the first token behind it.
  int32_t parse(uint32_t first, uint32_t last);
  uint32_t end() const { return at_; }
  /// Returns the node of `node` times 10^zeros, -1 if there is no room.
  int32_t scale(int32_t node, int32_t zeros);

 private:
  struct Nesting;

  bool more() const { return at_ < last_; }
  const Token& token(uint32_t index) const { return document_.words[index]; }
  bool next_is(Tok kind) const { return more() && token(at_).kind == kind; }
  int32_t add(Op op, int32_t a = -1, int32_t b = -1, char mark = 0);
  /// add() of two nodes, -1 if one of them is none.
  int32_t join(Op op, int32_t left, int32_t right);
  int32_t add_token(Op op, uint32_t index, char mark = 0);
  bool starts_factor() const;

  int32_t sum();
  int32_t product();
  int32_t signed_factor();
  int32_t factor();
  int32_t postfix(int32_t base);
  int32_t exponent();
  int32_t primary();
  int32_t number();
  int32_t mixed(int32_t whole, uint32_t whole_token);
  int32_t named();
  int32_t fraction(Op op);
  int32_t root();
  int32_t function();
  int32_t function_argument();
  int32_t many_arguments();
  int32_t argument();
  int32_t inside(uint32_t closing);
  int32_t between_bars();

  Document& document_;
  const std::vector<uint32_t>& match_;
  uint32_t at_ = 0, last_ = 0;
  int depth_ = 0;
  int bars_ = 0;
};

}  // namespace cohort::tasks::math
