#pragma once
/// A tokenizer of one's own: texts in, the files of a Hugging Face folder that speak of text out.
/// Byte-level BPE with Qwen2's pre-tokenizer and ChatML's special tokens. One thread; pure but for
/// its counts.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/text/bpe_trainer.hpp"

namespace cohort::text {

/// <|endoftext|> (0) fills and ends documents, <|im_start|> (1) and <|im_end|> (2) hold a turn.
inline constexpr size_t k_chat_ml_tokens = 3;
/// The least size: special tokens and bytes.
inline constexpr size_t k_tokenizer_size_min = k_chat_ml_tokens + 256;

class TokenizerTrainer {
 public:
  struct Options {
    size_t size = 0;  // tokens, special ones and bytes included
    uint64_t frequency_min = 2;
  };
  TokenizerTrainer();
  ~TokenizerTrainer();

  /// Counts the pieces of a document. Bytes that are not UTF-8 count as U+FFFD.
  Expected<void> add(std::string_view text);
  uint64_t bytes() const { return bytes_; }
  size_t pieces() const { return counts_.size(); }  // different ones

  struct Files {
    std::map<std::string, std::string> texts;  // by file name: tokenizer.json, …
    size_t tokens = 0;                         // fewer than asked for where the texts have no more
  };
  /// Returns tokenizer.json, tokenizer_config.json (with a chat template whose {% generation %}
  /// block is what the assistant says) and generation_config.json. Returns Errc::invalid_argument
  /// for a size below k_tokenizer_size_min.
  Expected<Files> train(const Options& options) const;

 private:
  struct Cutter;
  Expected<void> add_part(std::string_view text);
  std::unique_ptr<Cutter> cutter_;
  PieceCounts counts_;
  uint64_t bytes_ = 0;
};

}  // namespace cohort::text
