#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "runtime/text/template/characters.hpp"
#include "runtime/text/template/printing.hpp"

namespace cohort::text::jinja {

std::string integer_text(Integer x, unsigned base) {
  const bool is_negative = x < 0;
  __extension__ using Unsigned = unsigned __int128;
  auto rest = is_negative ? Unsigned{0} - static_cast<Unsigned>(x) : static_cast<Unsigned>(x);
  std::string digits;
  do {
    digits += "0123456789abcdefghijklmnopqrstuvwxyz"[static_cast<size_t>(rest % base)];
    rest /= base;
  } while (rest != 0);
  if (is_negative) digits += '-';
  return {digits.rbegin(), digits.rend()};
}

std::string real_text(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  const auto done =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), x, std::chars_format::scientific);
  const std::string_view all(buffer.data(), static_cast<size_t>(done.ptr - buffer.data()));
  const size_t e = all.find('e');
  std::string digits;
  for (const char c : all.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  const int exponent = std::stoi(std::string(all.substr(e + 1)));
  const std::string sign = std::signbit(x) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    std::string mantissa = digits.substr(0, 1);
    if (digits.size() > 1) mantissa += "." + digits.substr(1);
    return fmt::format("{}{}e{}{:02}", sign, mantissa, exponent < 0 ? '-' : '+',
                       std::abs(exponent));
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto point = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= point) return sign + digits + std::string(point - digits.size(), '0') + ".0";
  return sign + digits.substr(0, point) + "." + digits.substr(point);
}

namespace {

[[noreturn]] void too_large() {
  fail("OverflowError", "an integer of more than 127 bits is not supported");
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

/// The base that a prefix says; moves `text` behind it if it agrees with `base`.
int take_prefix(std::string_view& text, int base) {
  const char letter = text.size() > 1 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : ' ';
  const int named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (named != 0 && (base == 0 || base == named)) {
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
    return named;
  }
  return base == 0 ? 10 : base;
}

/// Takes out underscores that stand between digits; nothing if one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const bool is_between = i > 0 && i + 1 < text.size() && digit_value(text[i - 1]) < 36 &&
                            digit_value(text[i + 1]) < 36;
    if (!is_between) return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<Integer> parse_integer(std::string_view text, int base) {
  text = strip_blanks(text, true, true);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  base = take_prefix(text, base);
  const auto digits = without_underscores(text);
  if (!digits || digits->empty()) return std::nullopt;
  Integer x = 0;
  bool overflows = false;
  for (const char c : *digits) {
    const int digit = digit_value(c);
    if (digit >= base) return std::nullopt;
    overflows = overflows || __builtin_mul_overflow(x, Integer{base}, &x) ||
                __builtin_add_overflow(x, Integer{digit}, &x);
  }
  if (overflows) too_large();
  return is_negative ? -x : x;
}

std::optional<double> parse_real(std::string_view text) {
  text = strip_blanks(text, true, true);
  const auto plain = without_underscores(text);
  if (!plain) return std::nullopt;
  std::string_view rest = *plain;
  const bool is_negative = rest.starts_with('-');
  if (is_negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty() || rest[0] == '-' || rest[0] == '+') return std::nullopt;
  std::string word;
  for (const char c : rest) word += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  double x = 0;
  if (word == "nan") {
    x = std::nan("");
  } else if (word == "inf" || word == "infinity") {
    x = HUGE_VAL;
  } else {
    if (word[0] != '.' && (word[0] < '0' || word[0] > '9')) return std::nullopt;
    const auto done = std::from_chars(word.data(), word.data() + word.size(), x);
    if (done.ptr != word.data() + word.size()) return std::nullopt;
    if (done.ec == std::errc::result_out_of_range)
      x = std::strtod(word.c_str(), nullptr);
    else if (done.ec != std::errc{})
      return std::nullopt;
  }
  return is_negative ? -x : x;
}

Integer add(Integer a, Integer b) {
  Integer x = 0;
  if (__builtin_add_overflow(a, b, &x)) too_large();
  return x;
}
Integer subtract(Integer a, Integer b) {
  Integer x = 0;
  if (__builtin_sub_overflow(a, b, &x)) too_large();
  return x;
}
Integer multiply(Integer a, Integer b) {
  Integer x = 0;
  if (__builtin_mul_overflow(a, b, &x)) too_large();
  return x;
}
Integer to_integer(double x) {
  if (std::isnan(x)) fail("ValueError", "cannot convert float NaN to integer");
  if (std::isinf(x)) fail("OverflowError", "cannot convert float infinity to integer");
  if (std::abs(x) >= 0x1p126) too_large();
  return static_cast<Integer>(x);
}

}  // namespace cohort::text::jinja
