#pragma once
/// What tokenizer.json looks for in a text, {"String": …} or {"Regex": …}, and how a Split cuts the
/// text there. Pure, thread-safe.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/text/regex.hpp"
#include "runtime/text/scanners.hpp"

namespace cohort::text {

class Pattern {
 public:
  /// Matches `text` itself; the empty text matches nowhere.
  static Pattern of_string(std::string text);
  /// Matches as the regular expression does: by a scanner if it is a known one, else by Regex.
  static Expected<Pattern> of_regex(std::string_view regex);

  /// Finds the first match at `from` or later; false: none is left. Returns Errc::capacity if the
  /// budget is used up. REQUIRES: valid UTF-8.
  Expected<bool> find(std::string_view text, size_t from, Span& match, StepBudget& budget) const;

 private:
  std::string literal_;
  Scanner scanner_ = nullptr;
  std::shared_ptr<const Regex> regex_;
};

enum class SplitBehavior : uint8_t {
  removed,
  isolated,
  merged_with_previous,
  merged_with_next,
  contiguous,
};

/// A part of a cut text: a match, or what stands between two.
struct CutPart {
  Span span;
  bool is_match;
};

/// Returns the matches and the gaps of `text`, in order. Errc::capacity as Pattern::find.
Expected<void> cut(std::string_view text, const Pattern& pattern, StepBudget& budget,
                   std::vector<CutPart>& parts);

/// Joins or drops parts as `behavior` says; what stays is in `parts`. is_match is then of no use.
void apply_behavior(SplitBehavior behavior, std::vector<CutPart>& parts);

}  // namespace cohort::text
