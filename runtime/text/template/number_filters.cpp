/// Filters on numbers and single values.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "runtime/text/template/characters.hpp"
#include "runtime/text/template/filter_tables.hpp"
#include "runtime/text/template/printing.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text::jinja {
namespace {

Value absolute(Runtime&, const Value& x, const Arguments& arguments) {
  const Bound bound("abs", arguments, {});
  check_defined(x);
  if (x.is_whole()) return Value::integer(x.whole() < 0 ? subtract(0, x.whole()) : x.whole());
  if (x.is(Kind::real)) return Value::real(std::abs(x.real_value()));
  fail("TypeError", fmt::format("bad operand type for abs(): '{}'", type_name(x)));
}

Value default_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("default", arguments, {"default_value", "boolean"});
  const bool is_absent = x.is(Kind::undefined) || (bound.truth(1, false) && !is_true(x));
  if (!is_absent) return x;
  return bound.has(0) ? bound[0] : make_text(run.budget, "");
}

/// The decimal digits of every script as those of ASCII; they stand in tens, from nought to nine.
std::string with_ascii_digits(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    char32_t c = next_character(text, at);
    if (c < 0x80 || !is_in(c, CharacterClass::decimal)) {
      out += text.substr(begin, at - begin);
      continue;
    }
    char32_t before = 0;
    while (is_in(c - before - 1, CharacterClass::decimal)) ++before;
    out += static_cast<char>('0' + before % 10);
  }
  return out;
}

Value to_int(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"});
  const Value otherwise = bound.has(0) ? bound[0] : Value::integer(0);
  check_defined(x);
  if (x.is_whole()) return Value::integer(x.whole());
  if (x.is(Kind::real)) {
    if (!std::isfinite(x.real_value())) return otherwise;
    return Value::integer(to_integer(x.real_value()));
  }
  if (!x.is(Kind::text)) return otherwise;
  const Integer base = bound.whole(1, 10);
  if (base != 0 && (base < 2 || base > 36)) return otherwise;
  run.budget.scan(x.text().size());
  const std::string text = with_ascii_digits(x.text());
  if (const auto whole = parse_integer(text, static_cast<int>(base))) return Value::integer(*whole);
  const auto real = parse_real(text);
  return real && std::isfinite(*real) ? Value::integer(to_integer(*real)) : otherwise;
}

Value to_float(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("float", arguments, {"default"});
  const Value otherwise = bound.has(0) ? bound[0] : Value::real(0);
  check_defined(x);
  if (x.is_number()) return Value::real(x.number());
  if (!x.is(Kind::text)) return otherwise;
  run.budget.scan(x.text().size());
  const auto real = parse_real(with_ascii_digits(x.text()));
  return real ? Value::real(*real) : otherwise;
}

/// round(x, digits) of a float: the nearest decimal, read back.
double rounded(double x, Integer digits) {
  if (!std::isfinite(x) || digits > 323) return x;
  if (digits >= 0) {
    std::array<char, 800> text{};
    std::snprintf(text.data(), text.size(), "%.*f", static_cast<int>(digits), x);
    return std::strtod(text.data(), nullptr);
  }
  if (digits < -308) return std::copysign(0.0, x);
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(x / unit) * unit;
}

Integer power_of_ten(Integer exponent) {
  Integer power = 1;
  for (Integer i = 0; i < exponent; ++i) power = multiply(power, 10);
  return power;
}

Integer rounded_whole(Integer x, Integer digits) {
  if (digits >= 0) return x;
  if (digits < -38) return 0;
  const Integer unit = power_of_ten(-digits);
  Integer down = x / unit;
  Integer rest = x % unit;
  if (rest < 0) {
    rest += unit;
    --down;
  }
  const bool is_up = rest * 2 > unit || (rest * 2 == unit && down % 2 != 0);
  return multiply(down + (is_up ? 1 : 0), unit);
}

Value round_filter(Runtime&, const Value& x, const Arguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"});
  const Integer digits = bound.whole(0, 0);
  const std::string method = bound.has(1) ? bound.text(1) : "common";
  if (method != "common" && method != "ceil" && method != "floor")
    fail("FilterArgumentError", "method must be common, ceil or floor");
  check_defined(x);
  if (!x.is_number())
    fail("TypeError", fmt::format("type {} doesn't define __round__ method", type_name(x)));
  if (method == "common") {
    if (x.is_whole()) return Value::integer(rounded_whole(x.whole(), digits));
    return Value::real(rounded(x.real_value(), digits));
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = x.number() * scale;
  if (!std::isfinite(scaled)) fail("OverflowError", "cannot convert float infinity to integer");
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value filesizeformat_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("filesizeformat", arguments, {"binary"});
  check_defined(x);
  const auto parsed = x.is(Kind::text) ? parse_real(x.text()) : std::nullopt;
  if (!x.is_number() && !parsed) fail("TypeError", "filesizeformat: a number is required");
  const double bytes = parsed ? *parsed : x.number();
  const bool is_binary = bound.truth(0, false);
  const double base = is_binary ? 1024 : 1000;
  if (bytes == 1) return make_text(run.budget, "1 Byte");
  if (bytes < base) return make_text(run.budget, integer_text(to_integer(bytes)) + " Bytes");
  constexpr std::array<std::string_view, 8> letters{"k", "M", "G", "T", "P", "E", "Z", "Y"};
  double unit = base * base;
  size_t i = 0;
  while (i + 1 < letters.size() && bytes >= unit) {
    unit *= base;
    ++i;
  }
  const std::string prefix =
      is_binary ? std::string(i == 0 ? "K" : letters[i]) + "iB" : std::string(letters[i]) + "B";
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), "%.1f", base * bytes / unit);
  return make_text(run.budget, std::string(text.data()) + " " + prefix);
}

Value attr_filter(Runtime& run, const Value& x, const Arguments& arguments) {
  const Bound bound("attr", arguments, {"name"}, 1);
  check_defined(x);
  // Only an attribute, never an item.
  if (x.is(Kind::loop) || x.is(Kind::name_space) || !x.is(Kind::dict))
    return attribute_of(run, x, bound.text(0));
  const Value value = find_method(x, bound.text(0));
  if (!value.is(Kind::missing)) return value;
  return Value::undefined(fmt::format("'dict object' has no attribute '{}'", bound.text(0)));
}

constexpr FilterRow k_number_filters[] = {{"abs", absolute},
                                          {"attr", attr_filter},
                                          {"d", default_filter},
                                          {"default", default_filter},
                                          {"filesizeformat", filesizeformat_filter},
                                          {"float", to_float},
                                          {"int", to_int},
                                          {"round", round_filter}};

}  // namespace

std::span<const FilterRow> number_filters() { return k_number_filters; }

}  // namespace cohort::text::jinja
