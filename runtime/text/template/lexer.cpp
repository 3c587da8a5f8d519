#include "runtime/text/template/lexer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "runtime/text/template/characters.hpp"
#include "runtime/text/template/printing.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text::jinja {
namespace {

[[noreturn]] void syntax_error(std::string what, int line) {
  fail("TemplateSyntaxError", std::move(what), line);
}

std::string with_plain_newlines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      out += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }

/// Reads the escapes of a string literal as Python's unicode-escape codec does.
class Unescaper {
 public:
  Unescaper(std::string_view text, int line) : text_(text), line_(line) {}
  std::string read() {
    while (at_ < text_.size()) {
      if (text_[at_] != '\\') {
        out_ += text_[at_++];
        continue;
      }
      ++at_;
      read_escape();
    }
    return std::move(out_);
  }

 private:
  void read_escape() {
    if (at_ == text_.size()) syntax_error("\\ at end of string", line_);
    const char c = text_[at_];
    constexpr std::string_view from = "\\'\"abfnrtv", to = "\\'\"\a\b\f\n\r\t\v";
    if (const size_t i = from.find(c); i != std::string_view::npos) {
      out_ += to[i];
      ++at_;
    } else if (c == '\n') {
      ++at_;
    } else if (c >= '0' && c <= '7') {
      uint32_t code = 0;
      for (int n = 0; n < 3 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7'; ++n)
        code = code * 8 + static_cast<uint32_t>(text_[at_++] - '0');
      append_utf8(out_, code);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      read_hex(c);
    } else if (c == 'N') {
      syntax_error("\\N escapes of characters by name are not supported", line_);
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      read_escaped_character();
    } else {
      out_ += '\\';  // not an escape: the backslash stays
    }
  }
  void read_hex(char kind) {
    const size_t size = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
    const std::string_view digits = text_.substr(at_ + 1, size);
    uint32_t code = 0;
    const auto done = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != size || done.ptr != digits.data() + size)
      syntax_error(fmt::format("truncated \\{} escape", kind), line_);
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
      syntax_error("an escape that is no character", line_);
    append_utf8(out_, code);
    at_ += 1 + size;
  }
  /// Python writes characters beyond ASCII as escapes first, so that a backslash before one
  /// escapes that backslash, and the escape's letters stay.
  void read_escaped_character() {
    const auto c = static_cast<uint32_t>(next_character(text_, at_));
    if (c < 0x100)
      out_ += fmt::format("\\x{:02x}", c);
    else if (c < 0x10000)
      out_ += fmt::format("\\u{:04x}", c);
    else
      out_ += fmt::format("\\U{:08x}", c);
  }

  std::string_view text_;
  int line_;
  size_t at_ = 0;
  std::string out_;
};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(with_plain_newlines(source)) {
    if (text_.ends_with('\n')) text_.pop_back();
  }
  std::vector<Token> run() {
    while (at_ < text_.size()) read_data();
    add(Token::Type::end);
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(text_).substr(at_); }
  bool is_at(std::string_view x) const { return rest().starts_with(x); }
  void add(Token::Type type, std::string content = {}) {
    tokens_.push_back({type, std::move(content), {}, line_});
  }
  /// Moves to `end` and counts its lines.
  void advance(size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<ptrdiff_t>(at_),
                                         text_.begin() + static_cast<ptrdiff_t>(end), '\n'));
    at_ = end;
    begins_line_ = at_ > 0 && text_[at_ - 1] == '\n';
  }
  size_t blanks_end(size_t from) const {
    const std::string_view all = text_;
    const auto left = strip_blanks(all.substr(from), true, false);
    return all.size() - left.size();
  }
  static size_t next_tag(std::string_view text, size_t from) {
    for (size_t i = text.find('{', from); i + 1 < text.size(); i = text.find('{', i + 1)) {
      if (i == std::string_view::npos) break;
      if (text[i + 1] == '%' || text[i + 1] == '{' || text[i + 1] == '#') return i;
    }
    return std::string_view::npos;
  }

  /// Adds the data before a tag at `end`, without the blanks that the tag takes.
  void add_data_before(size_t end, char sign, bool is_block) {
    std::string_view data = std::string_view(text_).substr(at_, end - at_);
    if (sign == '-') {
      data = strip_blanks(data, false, true);
    } else if (sign != '+' && is_block) {
      const size_t newline = data.rfind('\n');
      const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
      if ((begin > 0 || begins_line_) && strip_blanks(data.substr(begin), true, false).empty())
        data = data.substr(0, begin);
    }
    if (!data.empty()) add(Token::Type::data, std::string(data));
    advance(end);
  }

  void read_data() {
    const size_t tag = next_tag(text_, at_);
    if (tag == std::string_view::npos) {
      add(Token::Type::data, std::string(rest()));
      advance(text_.size());
      return;
    }
    const char sign = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
    const bool has_sign = sign == '-' || sign == '+';
    const char kind = text_[tag + 1];
    add_data_before(tag, has_sign ? sign : '\0', kind != '{');
    const size_t inside = tag + 2 + (has_sign ? 1 : 0);
    if (kind == '%' && read_raw(inside)) return;
    const int line = line_;
    advance(inside);
    if (kind == '#') {
      read_comment(line);
    } else {
      add(kind == '%' ? Token::Type::block_begin : Token::Type::variable_begin);
      read_code(kind == '%');
    }
  }

  void read_comment(int line) {
    if (at_ == text_.size()) return;  // Jinja looks for the end of what has a beginning
    const size_t end = text_.find("#}", at_);
    if (end == std::string::npos) syntax_error("Missing end of comment tag", line);
    const char sign = end > at_ ? text_[end - 1] : '\0';
    advance(end_of_tag(end + 2, sign, true));
  }

  /// Returns where the text goes on behind a closing tag that ends at `end`.
  size_t end_of_tag(size_t end, char sign, bool trims_newline) const {
    if (sign == '-') return blanks_end(end);
    if (sign != '+' && trims_newline && end < text_.size() && text_[end] == '\n') return end + 1;
    return end;
  }

  /// {% raw %}…{% endraw %} with the opening tag's inside at `inside`. Returns whether it is one.
  bool read_raw(size_t inside) {
    const size_t word = blanks_end(inside);
    if (text_.compare(word, 3, "raw") != 0) return false;
    const size_t close = blanks_end(word + 3);
    const bool is_dashed = text_.compare(close, 3, "-%}") == 0;
    if (!is_dashed && text_.compare(close, 2, "%}") != 0) return false;
    const int line = line_;
    advance(is_dashed ? blanks_end(close + 3) : close + 2);
    for (size_t tag = text_.find("{%", at_); tag != std::string::npos;
         tag = text_.find("{%", tag + 1)) {
      const char sign = tag + 2 < text_.size() ? text_[tag + 2] : '\0';
      const bool has_sign = sign == '-' || sign == '+';
      const size_t name = blanks_end(tag + 2 + (has_sign ? 1 : 0));
      if (text_.compare(name, 6, "endraw") != 0) continue;
      const size_t end = blanks_end(name + 6);
      const char end_sign = end < text_.size() ? text_[end] : '\0';
      const bool has_end_sign = end_sign == '-' || end_sign == '+';
      if (text_.compare(end + (has_end_sign ? 1 : 0), 2, "%}") != 0) continue;
      add_data_before(tag, has_sign ? sign : '\0', true);
      advance(end_of_tag(end + (has_end_sign ? 3 : 2), has_end_sign ? end_sign : '\0', true));
      return true;
    }
    syntax_error("Missing end of raw directive", line);
  }

  bool read_closing_tag(bool is_block) {
    const std::string_view tag = is_block ? "%}" : "}}";
    const char sign = at_ < text_.size() ? text_[at_] : '\0';
    const bool has_sign = sign == '-' || (is_block && sign == '+');
    if (!rest().substr(has_sign ? 1 : 0).starts_with(tag)) return false;
    add(is_block ? Token::Type::block_end : Token::Type::variable_end);
    advance(end_of_tag(at_ + (has_sign ? 3 : 2), has_sign ? sign : '\0', is_block));
    return true;
  }

  void read_code(bool is_block) {
    std::string open;  // the closing brackets that are due
    while (at_ < text_.size()) {
      if (open.empty() && read_closing_tag(is_block)) return;
      if (const size_t end = blanks_end(at_); end > at_) {
        advance(end);
        continue;
      }
      if (is_digit_char(text_[at_])) {
        read_number();
      } else if (text_[at_] == '\'' || text_[at_] == '"') {
        read_string();
      } else if (!read_name()) {
        read_operator(open);
      }
    }
  }

  size_t digits_end(size_t from, std::string_view allowed) const {
    size_t at = from;
    while (at < text_.size()) {
      const size_t next = text_[at] == '_' && at > from ? at + 1 : at;
      if (next >= text_.size() || allowed.find(text_[next]) == std::string_view::npos) break;
      at = next + 1;
    }
    return at;
  }

  /// Returns the end of a float at `at_`, or at_.
  size_t real_end() const {
    constexpr std::string_view decimal = "0123456789";
    if (at_ > 0 && text_[at_ - 1] == '.') return at_;
    const size_t whole = digits_end(at_, decimal);
    size_t end = whole;
    if (end < text_.size() && text_[end] == '.') {
      const size_t fraction = digits_end(end + 1, decimal);
      if (fraction > end + 1) end = fraction;
    }
    const size_t mantissa = end;
    if (end < text_.size() && (text_[end] | 0x20) == 'e') {
      size_t exponent = end + 1;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
      const size_t digits = digits_end(exponent, decimal);
      if (digits > exponent) end = digits;
    }
    return mantissa > whole || end > mantissa ? end : at_;
  }

  size_t integer_end() const {
    constexpr std::array<std::pair<char, std::string_view>, 3> prefixes{
        {{'b', "01"}, {'o', "01234567"}, {'x', "0123456789abcdefABCDEF"}}};
    const char letter = at_ + 1 < text_.size() ? static_cast<char>(text_[at_ + 1] | 0x20) : '\0';
    if (text_[at_] == '0') {
      for (const auto& [name, digits] : prefixes) {
        if (letter != name) continue;
        size_t first = at_ + 2;
        if (first < text_.size() && text_[first] == '_') ++first;
        if (const size_t end = digits_end(first, digits); end > first) return end;
      }
      return digits_end(at_, "0");
    }
    return digits_end(at_, "0123456789");
  }

  void read_number() {
    const size_t real = real_end();
    const size_t end = real > at_ ? real : integer_end();
    std::string digits(text_, at_, end - at_);
    std::erase(digits, '_');
    Token token{real > at_ ? Token::Type::real : Token::Type::integer, {}, {}, line_};
    if (real > at_) {
      token.number = Value::real(*parse_real(digits));
    } else {
      const bool is_zero = digits.find_first_not_of('0') == std::string::npos;
      token.number = Value::integer(is_zero ? 0 : parse_integer(digits, 0).value_or(0));
    }
    tokens_.push_back(std::move(token));
    advance(end);
  }

  void read_string() {
    const char quote = text_[at_];
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size())
      syntax_error(fmt::format("unexpected char '{}': the text has no end", quote), line_);
    const std::string_view inside = std::string_view(text_).substr(at_ + 1, end - at_ - 1);
    add(Token::Type::text, Unescaper(inside, line_).read());
    advance(end + 1);
  }

  bool read_name() {
    size_t end = at_;
    while (end < text_.size()) {
      size_t next = end;
      if (!is_word(next_character(text_, next))) break;
      end = next;
    }
    if (end == at_) return false;
    std::string name(text_, at_, end - at_);
    if (!is_identifier(name)) syntax_error("Invalid character in identifier", line_);
    add(Token::Type::name, std::move(name));
    advance(end);
    return true;
  }

  void read_operator(std::string& open) {
    constexpr std::array<std::string_view, 6> pairs{"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view singles = "+-/*%~[](){}><=.:|,;";
    for (const auto pair : pairs) {
      if (!is_at(pair)) continue;
      add(Token::Type::op, std::string(pair));
      advance(at_ + 2);
      return;
    }
    const char c = text_[at_];
    if (singles.find(c) == std::string_view::npos) {
      size_t end = at_;
      next_character(text_, end);
      syntax_error(fmt::format("unexpected char '{}' at {}", text_.substr(at_, end - at_), at_),
                   line_);
    }
    if (c == '(') open += ')';
    if (c == '[') open += ']';
    if (c == '{') open += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) syntax_error(fmt::format("unexpected '{}'", c), line_);
      if (open.back() != c)
        syntax_error(fmt::format("unexpected '{}', expected '{}'", c, open.back()), line_);
      open.pop_back();
    }
    add(Token::Type::op, std::string(1, c));
    advance(at_ + 1);
  }

  std::string text_;
  size_t at_ = 0;
  int line_ = 1;
  bool begins_line_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source) { return Lexer(source).run(); }

std::string described(const Token& token) {
  switch (token.type) {
    case Token::Type::data:
      return "template data";
    case Token::Type::variable_begin:
      return "begin of print statement";
    case Token::Type::variable_end:
      return "end of print statement";
    case Token::Type::block_begin:
      return "begin of statement block";
    case Token::Type::block_end:
      return "end of statement block";
    case Token::Type::integer:
      return "integer";
    case Token::Type::real:
      return "float";
    case Token::Type::end:
      return "end of template";
    default:
      return token.content;
  }
}

}  // namespace cohort::text::jinja
