#include "runtime/text/byte_level.hpp"

#include <array>
#include <cstdint>

#include "runtime/text/unicode.hpp"

namespace cohort::text {
namespace {

constexpr char32_t k_mapped = 0x100, k_mapped_count = 68;

constexpr bool stands_for_itself(char32_t c) {
  return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255);
}

using ByteMap = std::array<uint8_t, k_mapped_count>;  // of U+0100 + i

constexpr ByteMap make_byte_map() {
  ByteMap map{};
  size_t next = 0;
  for (char32_t c = 0; c < 256; ++c)
    if (!stands_for_itself(c)) map[next++] = static_cast<uint8_t>(c);
  return map;
}
constexpr ByteMap k_byte_map = make_byte_map();

/// Of each byte.
constexpr std::array<char32_t, 256> k_characters = [] {
  std::array<char32_t, 256> map{};
  for (char32_t c = 0; c < 256; ++c)
    if (stands_for_itself(c)) map[c] = c;
  for (size_t i = 0; i < k_byte_map.size(); ++i)
    map[k_byte_map[i]] = k_mapped + static_cast<char32_t>(i);
  return map;
}();

}  // namespace

std::string characters_of_bytes(std::string_view bytes) {
  std::string characters;
  for (const char byte : bytes)
    append_utf8(characters, k_characters[static_cast<unsigned char>(byte)]);
  return characters;
}

std::optional<std::string> bytes_of_characters(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (size_t at = 0; at < token.size();) {
    const char32_t c = next_character(token, at);
    if (c >= k_mapped && c < k_mapped + k_mapped_count)
      bytes += static_cast<char>(k_byte_map[c - k_mapped]);
    else if (c < 256 && stands_for_itself(c))
      bytes += static_cast<char>(c);
    else
      return std::nullopt;
  }
  return bytes;
}

}  // namespace cohort::text
