#include "runtime/config/tree/utf8_text.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace cohort::config {
namespace {

uint8_t byte_at(std::string_view text, size_t at) { return static_cast<uint8_t>(text[at]); }

/// Bytes of the character that starts at `at`; 0: not UTF-8 (RFC 3629, table 3-7 of Unicode).
size_t character_bytes(std::string_view text, size_t at) {
  uint8_t lead = byte_at(text, at);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  size_t count = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (at + count > text.size()) return 0;
  uint8_t second = byte_at(text, at + 1);
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (second < low || second > high) return 0;
  for (size_t i = 2; i < count; ++i) {
    if ((byte_at(text, at + i) & 0xC0) != 0x80) return 0;
  }
  return count;
}

}  // namespace

std::optional<BadByte> find_bad_byte(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    uint8_t byte = byte_at(text, at);
    bool is_control = (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F;
    if (byte == 0) return BadByte{at, "a zero byte: not a text"};
    if (is_control) return BadByte{at, fmt::format("a control byte (0x{:02X})", byte)};
    size_t count = character_bytes(text, at);
    if (count == 0) return BadByte{at, fmt::format("not UTF-8 (byte 0x{:02X})", byte)};
    at += count;
  }
  return std::nullopt;
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    size_t count = character_bytes(text, at);
    if (count == 0) return false;
    at += count;
  }
  return true;
}

std::string shown_text(std::string_view text, size_t bytes_max) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    size_t count = character_bytes(text, at);
    if (at + count > bytes_max) return shown + "…";
    bool is_plain = count > 0 && byte_at(text, at) >= 0x20 && byte_at(text, at) != 0x7F;
    shown += is_plain ? text.substr(at, count) : count > 0 ? " " : "?";
    at += count > 0 ? count : 1;
  }
  return shown;
}

size_t closing_brace(std::string_view text, size_t open) {
  int level = 0;
  char quote = 0;
  for (size_t i = open; i < text.size(); ++i) {
    char c = text[i];
    if (quote != 0) {
      quote = c == quote && text[i - 1] != '\\' ? '\0' : quote;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '{') {
      ++level;
    } else if (c == '}' && --level == 0) {
      return i;
    }
  }
  return std::string_view::npos;
}

}  // namespace cohort::config
