#pragma once
/// Small readers of untrusted text, shared by tool_output.cpp and system_text.cpp. Pure; a view
/// points into the text given and must not outlive it.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/text.hpp"

namespace cohort::doctor {

/// Takes the next line off `text`, without its end of line. False when nothing is left.
bool next_line(std::string_view& text, std::string_view& line);
/// Takes the next blank-separated word off `text`, empty when there is none.
std::string_view next_word(std::string_view& text);
/// Whether `text` begins with `start`, ASCII letters compared without case.
bool starts_with_no_case(std::string_view text, std::string_view start);
/// Returns what stands behind the first `field` in any line ("link status: UP" and "link status:"
/// give "UP"), trimmed, or nothing. Letter case of the field does not matter.
std::optional<std::string_view> field_of(std::string_view text, std::string_view field);
/// Reads leading digits as a number below `limit`; nothing without a digit or above it.
std::optional<uint64_t> leading_number(std::string_view text, uint64_t limit = UINT64_MAX);
/// Returns a copy of at most `size` bytes in which bytes outside printable ASCII are '?'.
std::string printable(std::string_view text, size_t size);

}  // namespace cohort::doctor
