#pragma once
/// Texts cut into parts as Python's str does it. Views into the text. Pure.
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/template/value.hpp"

namespace cohort::text::jinja {

/// Return where `part` begins, at `from` or later, or the last such place; npos: nowhere. Linear in
/// the text, whatever the part.
size_t find_part(std::string_view text, std::string_view part, size_t from = 0);
size_t find_last_part(std::string_view text, std::string_view part);

/// text.split(None, most) or rsplit: at runs of blanks. most < 0: no limit.
std::vector<std::string_view> split_blanks(Budget& budget, std::string_view text, Integer most,
                                           bool from_right);
/// text.split(separator, most) or rsplit. REQUIRES: a separator that is not empty.
std::vector<std::string_view> split_at(Budget& budget, std::string_view text,
                                       std::string_view separator, Integer most, bool from_right);
/// text.splitlines(keeps_ends).
std::vector<std::string_view> lines_of(Budget& budget, std::string_view text, bool keeps_ends);
/// text.replace(from, to, most).
std::string replaced(Budget& budget, std::string_view text, std::string_view from,
                     std::string_view to, Integer most);

}  // namespace cohort::text::jinja
