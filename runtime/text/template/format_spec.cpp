#include "runtime/text/template/format_spec.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "runtime/text/template/characters.hpp"
#include "runtime/text/template/printing.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text::jinja {
namespace {

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

size_t read_count(std::string_view text, size_t& at) {
  size_t count = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    count = count * 10 + static_cast<size_t>(text[at] - '0');
    if (count > k_max_format_width) fail("ValueError", "Too many decimal digits in format string");
  }
  return count;
}

std::string printed(const char* format, int precision, double x) {
  const int size = std::snprintf(nullptr, 0, format, precision, x);
  std::string out(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(out.data(), out.size(), format, precision, x);
  out.pop_back();
  return out;
}

/// A real number in `precision` digits and without a type: as %g, but it always looks like a real
/// number, so that the exponent comes one digit earlier.
std::string short_digits(double x, int precision, bool is_alternate) {
  precision = std::max(precision, 1);
  std::string digits = printed(is_alternate ? "%#.*e" : "%.*e", precision - 1, x);
  const size_t mark = digits.find('e');
  const int exponent = std::stoi(digits.substr(mark + 1));
  if (exponent >= -4 && exponent < precision - 1) {
    digits = printed(is_alternate ? "%#.*g" : "%.*g", precision, x);
    return digits.find('.') == std::string::npos ? digits + ".0" : digits;
  }
  if (is_alternate) return digits;
  std::string mantissa = digits.substr(0, mark);
  if (mantissa.find('.') != std::string::npos) mantissa.resize(mantissa.find_last_not_of("0") + 1);
  if (mantissa.ends_with('.')) mantissa.pop_back();
  return mantissa + digits.substr(mark);
}

std::string real_digits(double x, const FormatSpec& spec) {
  if (!std::isfinite(x)) {
    std::string word = std::isnan(x) ? "nan" : "inf";
    if (spec.type == 'F' || spec.type == 'E' || spec.type == 'G')
      for (char& c : word) c = static_cast<char>(c - 32);
    return word;
  }
  const int precision = static_cast<int>(spec.precision.value_or(6));
  switch (spec.type) {
    case 'e':
      return printed(spec.is_alternate ? "%#.*e" : "%.*e", precision, x);
    case 'E':
      return printed(spec.is_alternate ? "%#.*E" : "%.*E", precision, x);
    case 'f':
    case 'F':
      return printed(spec.is_alternate ? "%#.*f" : "%.*f", precision, x);
    case 'G':
      return printed(spec.is_alternate ? "%#.*G" : "%.*G", precision, x);
    case '%':
      return printed("%.*f", precision, x * 100) + "%";
    case '\0':
      return spec.precision ? short_digits(x, precision, spec.is_alternate) : real_text(x);
    default:
      return printed(spec.is_alternate ? "%#.*g" : "%.*g", precision, x);
  }
}

std::string whole_digits(Integer x, char type) {
  switch (type) {
    case 'b':
      return integer_text(x, 2);
    case 'o':
      return integer_text(x, 8);
    case 'x':
    case 'X': {
      std::string digits = integer_text(x, 16);
      for (char& c : digits)
        if (type == 'X' && c >= 'a') c = static_cast<char>(c - 32);
      return digits;
    }
    default:
      return integer_text(x);
  }
}

bool has_prefix(char type) { return type == 'b' || type == 'o' || type == 'x' || type == 'X'; }

/// Digits in groups with a mark between them, none if it is '\0'; zeros in front up to `width`
/// characters, and one more where a mark would stand in front.
std::string grouped(std::string_view digits, char mark, size_t group, size_t width) {
  std::string out;  // backwards
  size_t in_group = 0;
  for (size_t left = digits.size(); left > 0 || out.size() < width; ++in_group) {
    if (mark != '\0' && in_group == group) {
      out += mark;
      in_group = 0;
    }
    out += left > 0 ? digits[--left] : '0';
  }
  return {out.rbegin(), out.rend()};
}

/// Whether digits of a real number, without a sign, say nought.
bool is_nought(std::string_view digits) {
  return digits.substr(0, digits.find_first_of("eE")).find_first_not_of("0.%") ==
         std::string_view::npos;
}

void check_grouping(const FormatSpec& spec, bool is_of_number) {
  if (spec.grouping == '\0') return;
  const bool is_bits = has_prefix(spec.type);
  constexpr std::string_view k_types = "deEfFgG%";
  const bool is_allowed = is_of_number && (spec.type == '\0' || (is_bits && spec.grouping == '_') ||
                                           k_types.find(spec.type) != std::string_view::npos);
  if (!is_allowed)
    fail("ValueError", fmt::format("Cannot specify '{}' with '{}'.", spec.grouping,
                                   spec.type == '\0' ? 's' : spec.type));
}

}  // namespace

bool is_real_type(char type) {
  return type != '\0' && std::string_view("eEfFgG%").find(type) != std::string_view::npos;
}

FormatSpec parse_format_spec(std::string_view text, bool is_of_number) {
  FormatSpec spec;
  size_t at = 0;
  bool has_fill = false;
  if (!text.empty()) {
    size_t second = 0;
    next_character(text, second);
    if (second < text.size() && is_align(text[second])) {
      spec.fill = std::string(text.substr(0, second));
      spec.align = text[second];
      at = second + 1;
      has_fill = true;
    } else if (is_align(text[0])) {
      spec.align = text[0];
      at = 1;
    }
  }
  const auto has = [&](char c) { return at < text.size() && text[at] == c; };
  if (has('+') || has('-') || has(' ')) spec.has_sign = (spec.sign = text[at++], true);
  if (has('z')) spec.coerces_negative_zero = (++at, true);
  if (has('#')) spec.is_alternate = (++at, true);
  if (has('0') && !has_fill) {
    ++at;
    spec.fill = "0";
    if (spec.align == '\0' && is_of_number) spec.align = '=';
  }
  spec.width = read_count(text, at);
  if (has(',') || has('_')) spec.grouping = text[at++];
  if (spec.grouping != '\0' && (has(',') || has('_')))
    fail("ValueError", "Cannot specify two marks of thousands.");
  if (has('.')) {
    const size_t begin = ++at;
    spec.precision = read_count(text, at);
    if (at == begin) fail("ValueError", "Format specifier missing precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) fail("ValueError", "Invalid format specifier");
  check_grouping(spec, is_of_number);
  return spec;
}

void check_whole_spec(const FormatSpec& spec) {
  if (spec.precision) fail("ValueError", "Precision not allowed in integer format specifier");
  if (spec.coerces_negative_zero)
    fail("ValueError", "Negative zero coercion (z) not allowed in format specifier with integer");
  if (spec.type == 'c' && spec.has_sign)
    fail("ValueError", "Sign not allowed with integer format specifier 'c'");
  if (spec.type == 'c' && spec.is_alternate)
    fail("ValueError", "Alternate form (#) not allowed with integer format specifier 'c'");
}

void check_text_spec(const FormatSpec& spec) {
  if (spec.type != '\0' && spec.type != 's')
    fail("ValueError", fmt::format("Unknown format code '{}' for object of type 'str'", spec.type));
  if (spec.has_sign) fail("ValueError", "Sign not allowed in string format specifier");
  if (spec.coerces_negative_zero)
    fail("ValueError", "Negative zero coercion (z) not allowed in string format specifier");
  if (spec.is_alternate)
    fail("ValueError", "Alternate form (#) not allowed in string format specifier");
  if (spec.align == '=') fail("ValueError", "'=' alignment not allowed in string format specifier");
}

std::string padded(std::string_view text, const FormatSpec& spec, char default_align) {
  const size_t length = character_count(text);
  if (length >= spec.width) return std::string(text);
  const size_t missing = spec.width - length;
  const char align = spec.align == '\0' ? default_align : spec.align;
  const size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string out;
  for (size_t i = 0; i < left; ++i) out += spec.fill;
  out += text;
  for (size_t i = left; i < missing; ++i) out += spec.fill;
  return out;
}

std::string format_number(const Value& x, const FormatSpec& spec) {
  const bool is_real = x.is(Kind::real) || is_real_type(spec.type);
  if (!is_real && spec.type == 'c') {
    if (x.whole() < 0 || x.whole() > 0x10FFFF)
      fail("OverflowError", "%c arg not in range(0x110000)");
    const auto c = static_cast<char32_t>(x.whole());
    if (c >= 0xD800 && c < 0xE000) fail("ValueError", "a surrogate is no character");
    return padded(to_utf8(c), spec, '>');
  }
  constexpr std::string_view of_wholes = "dboxXn";
  if (spec.type != '\0' && !(is_real ? is_real_type(spec.type) || spec.type == 'n'
                                     : of_wholes.find(spec.type) != std::string_view::npos))
    fail("ValueError",
         fmt::format("Unknown format code '{}' for object of type '{}'", spec.type, type_name(x)));
  bool is_negative = is_real ? std::signbit(x.number()) && !std::isnan(x.number()) : x.whole() < 0;
  std::string digits = is_real ? real_digits(std::abs(x.number()), spec)
                               : whole_digits(is_negative ? -x.whole() : x.whole(), spec.type);
  if (is_real && spec.coerces_negative_zero && is_nought(digits)) is_negative = false;
  std::string begin = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (!is_real && spec.is_alternate && has_prefix(spec.type)) begin += {'0', spec.type};
  // The fraction, the exponent, or a word; groups are made of the digits before it.
  std::string rest;
  if (is_real) {
    rest = digits.substr(std::min(digits.find_first_not_of("0123456789"), digits.size()));
    digits.resize(digits.size() - rest.size());
  }
  if (!digits.empty()) {
    const size_t taken = begin.size() + rest.size();
    const bool fills_zeros = spec.fill == "0" && spec.align == '=' && spec.width > taken;
    digits = grouped(digits, spec.grouping, has_prefix(spec.type) ? 4 : 3,
                     fills_zeros ? spec.width - taken : 0);
  }
  digits += rest;
  if (spec.align != '=') return padded(begin + digits, spec, '>');
  FormatSpec inside = spec;
  inside.width = spec.width > begin.size() ? spec.width - begin.size() : 0;
  return begin + padded(digits, inside, '>');
}

}  // namespace cohort::text::jinja
