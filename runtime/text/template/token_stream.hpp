#pragma once
/// The parsers' view of the tokens. One thread.
#include <initializer_list>
#include <string_view>
#include <vector>

#include "runtime/text/template/lexer.hpp"

namespace cohort::text::jinja {

[[noreturn]] void fail_syntax(std::string what, int line);

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  int line() const { return current().line; }
  const Token& next() {
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  void expect(Token::Type type, std::string_view what);
  const Token& expect_any_name();

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace cohort::text::jinja
