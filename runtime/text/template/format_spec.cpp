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

std::string real_digits(double x, const FormatSpec& spec) {
  if (!std::isfinite(x)) {
    std::string word = std::isnan(x) ? "nan" : "inf";
    if (spec.type == 'F' || spec.type == 'E' || spec.type == 'G')
      for (char& c : word) c = static_cast<char>(c - 32);
    return word;
  }
  const int precision = static_cast<int>(std::min<size_t>(spec.precision.value_or(6), 2000));
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
      if (!spec.precision) return real_text(x);
      [[fallthrough]];
    default: {
      std::string digits = printed(spec.is_alternate ? "%#.*g" : "%.*g", precision, x);
      if (spec.type == '\0' && digits.find_first_of(".en") == std::string::npos) digits += ".0";
      return digits;
    }
  }
}

std::string whole_digits(Integer x, const FormatSpec& spec) {
  switch (spec.type) {
    case 'b':
      return (spec.is_alternate ? "0b" : "") + integer_text(x, 2);
    case 'o':
      return (spec.is_alternate ? "0o" : "") + integer_text(x, 8);
    case 'x':
      return (spec.is_alternate ? "0x" : "") + integer_text(x, 16);
    case 'X': {
      std::string digits = integer_text(x, 16);
      for (char& c : digits)
        if (c >= 'a') c = static_cast<char>(c - 32);
      return (spec.is_alternate ? "0X" : "") + digits;
    }
    default:
      return integer_text(x);
  }
}

std::string grouped(const std::string& digits, char mark) {
  size_t end = 0;
  while (end < digits.size() && digits[end] >= '0' && digits[end] <= '9') ++end;
  std::string out;
  for (size_t i = 0; i < end; ++i) {
    if (i > 0 && (end - i) % 3 == 0) out += mark;
    out += digits[i];
  }
  return out + digits.substr(end);
}

}  // namespace

FormatSpec parse_format_spec(std::string_view text) {
  FormatSpec spec;
  size_t at = 0;
  if (!text.empty()) {
    size_t second = 0;
    next_character(text, second);
    if (second < text.size() && is_align(text[second])) {
      spec.fill = std::string(text.substr(0, second));
      spec.align = text[second];
      at = second + 1;
    } else if (is_align(text[0])) {
      spec.align = text[0];
      at = 1;
    }
  }
  const auto has = [&](char c) { return at < text.size() && text[at] == c; };
  if (has('+') || has('-') || has(' ')) spec.sign = text[at++];
  if (has('#')) spec.is_alternate = (++at, true);
  if (has('0')) {
    ++at;
    if (spec.align == '\0') {
      spec.fill = "0";
      spec.align = '=';
    }
  }
  spec.width = read_count(text, at);
  if (has(',') || has('_')) spec.grouping = text[at++];
  if (has('.')) {
    const size_t begin = ++at;
    spec.precision = read_count(text, at);
    if (at == begin) fail("ValueError", "Format specifier missing precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) fail("ValueError", "Invalid format specifier");
  return spec;
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
  constexpr std::string_view of_reals = "eEfFgG%";
  const bool is_real = x.is(Kind::real) || of_reals.find(spec.type) != std::string_view::npos;
  if (!is_real && spec.type == 'c') {
    if (x.whole() < 0 || x.whole() > 0x10FFFF)
      fail("OverflowError", "%c arg not in range(0x110000)");
    const auto c = static_cast<char32_t>(x.whole());
    if (c >= 0xD800 && c < 0xE000) fail("ValueError", "a surrogate is no character");
    return padded(to_utf8(c), spec, '<');
  }
  constexpr std::string_view of_wholes = "dboxXn";
  if (spec.type != '\0' &&
      !(is_real ? of_reals.find(spec.type) != std::string_view::npos || spec.type == 'n'
                : of_wholes.find(spec.type) != std::string_view::npos))
    fail("ValueError",
         fmt::format("Unknown format code '{}' for object of type '{}'", spec.type, type_name(x)));
  const bool is_negative =
      is_real ? std::signbit(x.number()) && !std::isnan(x.number()) : x.whole() < 0;
  std::string digits = is_real ? real_digits(std::abs(x.number()), spec)
                               : whole_digits(is_negative ? -x.whole() : x.whole(), spec);
  if (spec.grouping != '\0') digits = grouped(digits, spec.grouping);
  const std::string sign = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.align != '=') return padded(sign + digits, spec, '>');
  FormatSpec rest = spec;
  rest.width = spec.width > sign.size() ? spec.width - sign.size() : 0;
  size_t prefix = 0;
  if (!is_real && spec.is_alternate && digits.size() > 2 && digits[0] == '0' &&
      (digits[1] == 'x' || digits[1] == 'X' || digits[1] == 'b' || digits[1] == 'o'))
    prefix = 2;
  rest.width = rest.width > prefix ? rest.width - prefix : 0;
  return sign + digits.substr(0, prefix) + padded(digits.substr(prefix), rest, '>');
}

}  // namespace cohort::text::jinja
