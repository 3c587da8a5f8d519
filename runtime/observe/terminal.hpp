#pragma once
/// Text cells and ANSI styles for the console. Pure. Internal to runtime/observe.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cohort::observe {

enum class Style : uint8_t { none, bold, dim, red, green, yellow, blue, magenta, cyan };

/// Returns how many cells `text` takes: one per code point, none for ANSI sequences and combining
/// marks. (No wide East Asian characters are drawn by us; from outside they count as one.)
size_t cell_count(std::string_view text);
/// Returns `text` cut to `cells`, with "…" as its last cell if it was longer. ANSI sequences are
/// kept.
std::string fit(std::string_view text, size_t cells);
/// Returns `text` with control characters (below space, DEL) as spaces: a model's output cannot
/// move the cursor.
std::string printable(std::string_view text);
/// Returns `text` in `style`, or unchanged if not `color`.
std::string styled(std::string_view text, Style style, bool color);
/// Returns a bar of `cells` cells filled to `fraction` by eighths, the rest "░" or blank.
std::string bar(double fraction, size_t cells);
/// Returns `text` padded with spaces on the right to `cells`; longer text is fitted.
std::string pad_right(std::string_view text, size_t cells);

}  // namespace cohort::observe
