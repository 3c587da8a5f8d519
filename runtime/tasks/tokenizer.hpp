#pragma once
/// Text to token ids and back. One interface for the built-in word tokenizer of the demo tasks and,
/// later, for HF tokenizers. Immutable after construction: any thread may use it. TASK-4:
/// decode(encode(x)) == x for every text that encodes.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

class Tokenizer {
 public:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  virtual ~Tokenizer() = default;

  /// Returns Errc::invalid_argument naming the character and its offset if the vocabulary cannot
  /// cover `text`.
  virtual Expected<std::vector<int32_t>> encode(std::string_view text) const = 0;
  /// Returns the text of the ids; ids outside the vocabulary (a model may have padded rows) give
  /// nothing.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  virtual int32_t vocab_size() const = 0;
  /// Returns the id of a token by its exact text, e.g. "<|im_end|>" or "</answer>".
  virtual std::optional<int32_t> token_id(std::string_view text) const = 0;
};

/// Tokens get ids in the order of this list: first specials, then words. A word may be any text
/// (one character, "Right", "<|im_end|>\n<|im_start|>user\n"): encoding takes the longest word that
/// fits, from the left.
struct WordVocabulary {
  std::vector<std::string> specials;
  std::vector<std::string> words;
  std::string pad = "<pad>";       // must be among specials
  std::string eos = "<|im_end|>";  // must be among specials
};

/// Returns Errc::invalid_argument if a token is empty or doubled, or pad or eos is missing.
Expected<std::unique_ptr<Tokenizer>> make_word_tokenizer(const WordVocabulary& vocabulary);

/// Returns the vocabulary of the FrozenLake demo: glyphs, action words, answer tags, ChatML turn
/// borders (each one token), events, digits; and, so that a configured template encodes, each
/// character of `texts` (the templates and instructions a run will show) that is not there yet.
WordVocabulary frozen_lake_vocabulary(std::span<const std::string> texts = {});

}  // namespace cohort::tasks
