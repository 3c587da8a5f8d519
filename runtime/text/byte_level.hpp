#pragma once
/// GPT-2's map between bytes and the printable characters that stand for them in byte-level
/// vocabularies: bytes 33-126, 161-172 and 174-255 stand for themselves, the other 68, ascending,
/// are U+0100 ... U+0143 (a space is U+0120). Pure, thread-safe.
#include <optional>
#include <string>
#include <string_view>

namespace cohort::text {

/// Returns the bytes that the characters of `token` stand for; nothing if one stands for none.
/// REQUIRES: valid UTF-8.
std::optional<std::string> bytes_of_characters(std::string_view token);

/// Returns the characters that stand for the bytes, in UTF-8.
std::string characters_of_bytes(std::string_view bytes);

}  // namespace cohort::text
