#pragma once
/// Escaping for report.html. Pure. Internal to runtime/observe.
#include <string>
#include <string_view>

namespace cohort::observe {

/// Returns `text` safe as element content and inside a quoted attribute: & < > " ' escaped; control
/// characters (but tab and line end) and bytes that are not UTF-8 become U+FFFD.
std::string escape_html(std::string_view text);
/// Returns the length of the UTF-8 character at the start of `text`, 0 if it is not one.
size_t utf8_bytes(std::string_view text);

}  // namespace cohort::observe
