#include "runtime/query/tokens.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

namespace cohort::query {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view query) : query_(query) {}

  Expected<std::vector<Token>> run() {
    while (at_ < query_.size()) {
      const char c = query_[at_];
      if (c == ' ' || c == '\t' || c == '\n') {
        ++at_;
      } else if (is_digit(c) ||
                 (c == '.' && at_ + 1 < query_.size() && is_digit(query_[at_ + 1]))) {
        COHORT_TRY(number());
      } else if (c == '\'' || c == '"') {
        COHORT_TRY(text(c));
      } else if (starts_name(c)) {
        name();
      } else {
        COHORT_TRY(sign());
      }
    }
    tokens_.push_back({TokenKind::end, "", 0, query_.size()});
    return std::move(tokens_);
  }

 private:
  Expected<void> number() {
    double value = 0;
    const char* begin = query_.data() + at_;
    const auto [end, code] = std::from_chars(begin, query_.data() + query_.size(), value);
    if (code != std::errc{}) return query_error(query_, at_, "a number that no double holds");
    const auto size = static_cast<size_t>(end - begin);
    if (at_ + size < query_.size() && starts_name(*end))
      return query_error(query_, at_ + size, "a letter directly behind a number");
    tokens_.push_back({TokenKind::number, std::string(begin, size), value, at_});
    at_ += size;
    return {};
  }

  Expected<void> text(char quote) {
    Token token{TokenKind::text, "", 0, at_};
    for (size_t i = at_ + 1; i < query_.size(); ++i) {
      if (query_[i] == quote) {
        at_ = i + 1;
        tokens_.push_back(std::move(token));
        return {};
      }
      if (query_[i] == '\\' && i + 1 < query_.size()) {
        const char next = query_[i + 1];
        if (next == 'n' || next == 't' || next == '\\' || next == '\'' || next == '"') {
          token.text += next == 'n' ? '\n' : next == 't' ? '\t' : next;
          ++i;
          continue;
        }
      }
      token.text += query_[i];
    }
    return query_error(query_, at_, "a text whose closing quote is missing");
  }

  void name() {
    size_t end = at_;
    while (end < query_.size() &&
           (starts_name(query_[end]) || is_digit(query_[end]) ||
            (query_[end] == '.' && end + 1 < query_.size() && starts_name(query_[end + 1]))))
      ++end;
    tokens_.push_back({TokenKind::name, std::string(query_.substr(at_, end - at_)), 0, at_});
    at_ = end;
  }

  Expected<void> sign() {
    static constexpr std::array<std::string_view, 17> k_signs = {
        "<=", ">=", "==", "!=", "!~", "<", ">", "~", "+", "-", "*", "/", "%", "(", ")", "[", "]"};
    for (std::string_view sign : k_signs)
      if (query_.substr(at_).starts_with(sign)) {
        tokens_.push_back({TokenKind::sign, std::string(sign), 0, at_});
        at_ += sign.size();
        return {};
      }
    return query_error(query_, at_,
                       query_[at_] == '=' ? "'=' is no sign (equality is ==)" : "no such sign");
  }

  std::string_view query_;
  size_t at_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

Expected<std::vector<Token>> tokenize(std::string_view query) { return Tokenizer(query).run(); }

Error query_error(std::string_view query, size_t at, std::string_view what) {
  const std::string_view rest = query.substr(at, 20);
  return {Errc::invalid_argument,
          rest.empty() ? fmt::format("query: {} at its end", what)
                       : fmt::format("query: {} at character {}: '{}'", what, at + 1, rest)};
}

}  // namespace cohort::query
