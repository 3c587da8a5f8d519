#pragma once
/// Hand-written scanners for the regular expressions by which well-known tokenizers cut text into
/// pieces (Qwen 2 and 3, Llama 3, GPT-2, DeepSeek V3, Mistral's tekken): they find what the regular
/// expression finds, in linear time. Pure, thread-safe.
#include <cstddef>
#include <span>
#include <string_view>

#include "runtime/text/nfc.hpp"

namespace cohort::text {

/// Finds the first match in `text` that begins at `from` or later; returns false if there is none.
/// REQUIRES: valid UTF-8.
using Scanner = bool (*)(std::string_view text, size_t from, Span& match);

struct KnownPattern {
  std::string_view name;
  std::string_view regex;  // line ends written as \r and \n
  Scanner scanner;
};

std::span<const KnownPattern> known_patterns();

/// Returns the scanner of the known pattern that is `regex` (line ends may stand for \r and \n), or
/// null.
Scanner find_scanner(std::string_view regex);

}  // namespace cohort::text
