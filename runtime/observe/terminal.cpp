#include "runtime/observe/terminal.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace cohort::observe {
namespace {

constexpr std::string_view k_reset = "\x1b[0m";
constexpr std::array<std::string_view, 9> k_style_codes = {"",         "\x1b[1m",  "\x1b[2m",
                                                           "\x1b[31m", "\x1b[32m", "\x1b[33m",
                                                           "\x1b[34m", "\x1b[35m", "\x1b[36m"};

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; }

/// Returns the length of the ANSI sequence at the start of `text`, 0 if there is none.
size_t escape_bytes(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  size_t end = 2;
  while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
  return std::min(end + 1, text.size());
}

/// Returns the length of the code point at the start of `text`, its combining marks included.
size_t glyph_bytes(std::string_view text) {
  size_t end = 1;
  while (end < text.size() && is_continuation(text[end])) ++end;
  return end;
}

}  // namespace

size_t cell_count(std::string_view text) {
  size_t cells = 0;
  while (!text.empty()) {
    size_t skip = escape_bytes(text);
    if (skip == 0) {
      skip = glyph_bytes(text);
      ++cells;
    }
    text.remove_prefix(skip);
  }
  return cells;
}

std::string fit(std::string_view text, size_t cells) {
  if (cell_count(text) <= cells) return std::string(text);
  std::string out;
  size_t used = 0;
  bool is_styled = false;
  while (!text.empty()) {
    size_t length = escape_bytes(text);
    if (length > 0) {
      is_styled = text.substr(0, length) != k_reset;
      out += text.substr(0, length);
    } else {
      if (used + 1 >= cells) break;
      length = glyph_bytes(text);
      out += text.substr(0, length);
      ++used;
    }
    text.remove_prefix(length);
  }
  if (cells > 0) out += "…";
  if (is_styled) out += k_reset;
  return out;
}

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return out;
}

std::string styled(std::string_view text, Style style, bool color) {
  if (!color || style == Style::none || text.empty()) return std::string(text);
  std::string out(k_style_codes[static_cast<size_t>(style)]);
  out += text;
  out += k_reset;
  return out;
}

std::string bar(double fraction, size_t cells) {
  constexpr std::array<std::string_view, 8> k_eighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  double clamped = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0;
  auto eighths = static_cast<size_t>(std::llround(clamped * static_cast<double>(cells) * 8));
  std::string out;
  size_t used = 0;
  for (; used < eighths / 8; ++used) out += "█";
  if (eighths % 8 != 0) {
    out += k_eighths[eighths % 8];
    ++used;
  }
  for (; used < cells; ++used) out += "░";
  return out;
}

std::string pad_right(std::string_view text, size_t cells) {
  std::string out = fit(text, cells);
  out.append(cells - std::min(cells, cell_count(out)), ' ');
  return out;
}

}  // namespace cohort::observe
