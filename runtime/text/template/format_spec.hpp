#pragma once
/// One field of a format: how a value is written with width, sign and precision. Pure.
#include <optional>
#include <string>
#include <string_view>

#include "runtime/text/template/value.hpp"

namespace cohort::text::jinja {

inline constexpr size_t k_max_format_width = size_t{1} << 20;

struct FormatSpec {
  std::string fill = " ";  // one character
  char align = '\0';       // < > ^ =; none: by type
  char sign = '-';
  bool has_sign = false;               // one is written
  bool coerces_negative_zero = false;  // z
  bool is_alternate = false;
  char grouping = '\0';  // , or _
  size_t width = 0;
  std::optional<size_t> precision;
  char type = '\0';
};

/// Reads "[[fill]align][sign][z][#][0][width][,][.precision][type]" of a number or of a text. Fails
/// with a ValueError.
FormatSpec parse_format_spec(std::string_view text, bool is_of_number);
/// Fails with a ValueError for what Python refuses of whole numbers: a precision, z, a sign of c.
void check_whole_spec(const FormatSpec& spec);
/// Fails with a ValueError for what Python refuses of texts: a sign, z, #, "=", a number's type.
void check_text_spec(const FormatSpec& spec);
/// Writes a number: d b o x X c n e E f F g G %. Fails with a ValueError for another type.
std::string format_number(const Value& x, const FormatSpec& spec);
/// True for the types that write any number as a real one.
bool is_real_type(char type);
/// Fills `text` up to the spec's width.
std::string padded(std::string_view text, const FormatSpec& spec, char default_align);

}  // namespace cohort::text::jinja
