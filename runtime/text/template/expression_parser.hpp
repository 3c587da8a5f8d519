#pragma once
/// Expressions of a template, by recursive descent over Jinja's levels of precedence:
/// inline if, or, and, not, comparisons, + -, ~, * / // %, **, unary, then calls, filters, tests.
/// Bounded by k_max_nesting and k_max_height. One thread.
#include <string_view>

#include "runtime/text/template/ast.hpp"
#include "runtime/text/template/token_stream.hpp"

namespace cohort::text::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  ExprPtr expression() { return conditional(); }
  struct TupleOptions {
    bool is_simplified = false;      // only names and literals: a target
    bool has_condition = true;       // inline if may stand in it
    bool has_parentheses = false;    // may be empty
    bool has_namespaces = false;     // name.attribute is a target
    std::string_view end_name = {};  // a name that ends it, e.g. "in"
  };
  /// One expression, or a tuple where a comma follows.
  ExprPtr tuple(const TupleOptions& options);
  /// What `set` and `for` may assign to.
  ExprPtr target(std::string_view end_name, bool has_namespaces);
  ExprPtr name_target();
  /// A chain of filters; `node` may be null (a filter block). `begins` at a name, without a pipe.
  ExprPtr filter_chain(ExprPtr node, bool begins);

 private:
  ExprPtr conditional();
  ExprPtr logical_or();
  ExprPtr logical_and();
  ExprPtr logical_not();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool has_filters);
  ExprPtr primary(bool has_namespaces);
  ExprPtr name_or_constant(bool has_namespaces);
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr node);
  ExprPtr filters_and_tests(ExprPtr node);
  ExprPtr subscript(ExprPtr node);
  ExprPtr subscribed(ExprPtr object);
  ExprPtr call(ExprPtr node);
  ExprPtr test(ExprPtr node);
  CallArguments call_arguments();
  bool is_tuple_end(std::string_view end_name) const;
  ExprPtr binary(Operator op, ExprPtr a, ExprPtr b);
  ExprPtr node(ExprKind kind, int line) const;
  /// Adds a child, and refuses a tree that is too high.
  void adopt(Expr& parent, ExprPtr child) const;
  void set_as_target(Expr& x) const;

  class Nesting;
  TokenStream& stream_;
  int nesting_ = 0;
};

}  // namespace cohort::text::jinja
