#pragma once
/// A tool's output as the policy reads it: valid UTF-8, cut to a length, and written in the
/// vocabulary's characters, so that whatever a tool says becomes ids. Pure; thread-safe.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/tasks/tokenizer.hpp"

namespace cohort::tasks {

/// Which part of a text that is too long stays, as verl names it.
enum class CutSide : uint8_t { left, middle, right };

struct ToolTextLimits {
  size_t characters_max = 256;  // 0: no bound
  size_t tokens_max = 0;        // 0: no bound
  CutSide side = CutSide::middle;
};

/// Returns the first (left) or last (right) `length` characters of a text that has more, or half of
/// them from each end (middle), with "...(truncated)", "(truncated)..." or "...(truncated)..." in
/// the place of the rest. REQUIRES: valid UTF-8.
std::string cut_text(std::string_view text, size_t length, CutSide side);

class ToolText {
 public:
  ToolText(std::shared_ptr<const Tokenizer> tokenizer, ToolTextLimits limits)
      : tokenizer_(std::move(tokenizer)), limits_(limits) {}
  /// Returns `output` for the policy. U+FFFD stands for what is no UTF-8. Characters are cut first,
  /// then tokens; the words that tell of a cut come on top. A character that the vocabulary cannot
  /// write becomes '?', or nothing if that has no token either.
  std::string shown(std::string_view output) const;

 private:
  std::string encodable(std::string text) const;
  std::string cut_tokens(std::string text) const;
  std::shared_ptr<const Tokenizer> tokenizer_;
  ToolTextLimits limits_;
};

}  // namespace cohort::tasks
