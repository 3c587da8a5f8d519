#pragma once
/// Text of a template to tokens, with Jinja's rules for blanks around tags as transformers sets
/// them: trim_blocks, lstrip_blocks, one newline at the end goes. Pure. Fails with a
/// TemplateSyntaxError and its line.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/template/value.hpp"

namespace cohort::text::jinja {

struct Token {
  enum class Type : uint8_t {
    data,
    variable_begin,
    variable_end,
    block_begin,
    block_end,
    name,
    text,
    integer,
    real,
    op,
    end,
  };
  Type type = Type::end;
  std::string content;  // data, name, text (unescaped), operator
  Value number;
  int line = 0;

  bool is(Type t) const { return type == t; }
  bool is_op(std::string_view x) const { return type == Type::op && content == x; }
  bool is_name(std::string_view x) const { return type == Type::name && content == x; }
};

/// Returns the tokens of a template; the last one is `end`. REQUIRES: valid UTF-8.
std::vector<Token> tokens_of(std::string_view source);
/// Returns what a message calls the token.
std::string described(const Token& token);

}  // namespace cohort::text::jinja
