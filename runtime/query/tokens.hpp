#pragma once
/// The words of a query: numbers, quoted texts, names, signs. Pure.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::query {

enum class TokenKind { number, text, name, sign, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;   // of a text: without quotes and escapes
  double number = 0;  // of a number
  size_t at = 0;      // [bytes] into the query
};

/// Returns the tokens, the last of kind `end`. Names may have dots inside. Texts stand in ' or ",
/// in which \n, \t, \\, \' and \" are escapes and any other backslash is itself (regular
/// expressions). Returns Errc::invalid_argument with the position of what is no token.
Expected<std::vector<Token>> tokenize(std::string_view query);

/// Returns Errc::invalid_argument: "query: WHAT at character N: 'the rest'", N counted from 1.
Error query_error(std::string_view query, size_t at, std::string_view what);

}  // namespace cohort::query
