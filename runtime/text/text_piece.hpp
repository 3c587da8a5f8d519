#pragma once
/// A stretch of text on its way through normalizers and pre-tokenizers, which knows which bytes of
/// the input each of its bytes comes from. Views into the input or into a TextBuffers.
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/text/text_pattern.hpp"

namespace cohort::text {

struct TextPiece {
  std::string_view text;
  const Span* origins = nullptr;  // of each byte; null: byte i is byte origin + i of the input
  size_t origin = 0;
  bool is_first = false;  // begins where the input begins

  /// Returns the bytes of the input that the bytes [part.begin, part.end) come from.
  Span origin_of(Span part) const;
  TextPiece sub(Span part) const;
};

/// Owns changed texts. Not thread-safe; the views hold as long as it lives. Each new byte costs
/// k_steps_per_new_byte of the budget, so that a tokenizer.json cannot make a text grow without
/// bound: Errc::capacity then.
class TextBuffers {
 public:
  static constexpr uint64_t k_steps_per_new_byte = 16;

  /// `wants_origins`: without, changed pieces do not know where they come from.
  explicit TextBuffers(bool wants_origins) : wants_origins_(wants_origins) {}
  bool wants_origins() const { return wants_origins_; }

  /// `origins` are relative to `piece`; they may be empty unless wants_origins().
  Expected<void> put(TextPiece& piece, std::string text, const std::vector<Span>& origins,
                     StepBudget& budget);
  Expected<void> prepend(TextPiece& piece, std::string_view prefix, StepBudget& budget);
  Expected<void> replace(TextPiece& piece, const Pattern& pattern, std::string_view content,
                         StepBudget& budget);

 private:
  bool wants_origins_;
  std::deque<std::string> texts_;
  std::deque<std::vector<Span>> origins_;
};

}  // namespace cohort::text
