#pragma once
/// Values as text: Python's str(), repr() and json.dumps(), and numbers from and to text. Pure.
#include <optional>
#include <string>
#include <string_view>

#include "runtime/text/template/value.hpp"

namespace cohort::text::jinja {

std::string integer_text(Integer x, unsigned base = 10);
/// Python's repr of a float: the shortest that reads back, 1e+16 and 1e-05 beyond 16 digits.
std::string real_text(double x);

/// str(x). A text is itself; an undefined value is empty.
std::string to_text(Budget& budget, const Value& x);
/// repr(x).
std::string to_repr(Budget& budget, const Value& x);
std::string text_repr(std::string_view text);

struct JsonLayout {
  bool ensures_ascii = false;
  std::optional<std::string> indent;  // of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sorts_keys = false;
};
/// json.dumps(x). Fails with a TypeError for what JSON does not have.
std::string to_json(Budget& budget, const Value& x, const JsonLayout& layout);

/// Markup's escape of & < > ' ".
std::string escape_markup(std::string_view text);

/// int(text, base) and float(text) of Python; nothing if it raises. base 0: by prefix.
std::optional<Integer> parse_integer(std::string_view text, int base);
std::optional<double> parse_real(std::string_view text);

// Arithmetic that fails with an OverflowError where a result has more than 127 bits.
Integer add(Integer a, Integer b);
Integer subtract(Integer a, Integer b);
Integer multiply(Integer a, Integer b);
/// Fails for NaN and infinities as int() does.
Integer to_integer(double x);

}  // namespace cohort::text::jinja
