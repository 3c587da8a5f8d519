#include "runtime/observe/html.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace cohort::observe {
namespace {

constexpr std::string_view k_replacement = "\xEF\xBF\xBD";  // U+FFFD
using Escape = std::pair<char, std::string_view>;
constexpr Escape k_escapes[] = {
    {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};

}  // namespace

size_t utf8_bytes(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (text.empty()) return 0;
  if (byte(0) < 0x80) return 1;
  size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  uint32_t code = byte(0) & (0x7fU >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
    code = code << 6 | (byte(i) & 0x3fU);
  }
  bool is_overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  return is_overlong || is_surrogate || code > 0x10ffff ? 0 : length;
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    size_t length = utf8_bytes(text);
    unsigned char first = static_cast<unsigned char>(text[0]);
    bool is_control = first < 0x20 && first != '\n' && first != '\t';
    if (length == 0 || is_control || first == 0x7f) {
      out += k_replacement;
      length = 1;
    } else if (const auto* found = std::ranges::find(k_escapes, text[0], &Escape::first);
               found != std::end(k_escapes)) {
      out += found->second;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace cohort::observe
