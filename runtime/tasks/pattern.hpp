#pragma once
/// Regular expressions as Python's re.search(expression, text, re.DOTALL) has them, by PCRE2 (its
/// JIT where the machine has one): the language of ROLL's action patterns. Bytes, not characters: a
/// model's text may end inside a UTF-8 character. Immutable after compile: any thread may search.
/// Bound: a search that backtracks more than k_match_limit times counts as no match, so hostile
/// text costs milliseconds, never a hang.
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

class Pattern {
 public:
  /// Captured texts; [0] is the whole match, an absent group took no part in it.
  using Match = std::vector<std::optional<std::string_view>>;
  static constexpr uint32_t k_match_limit = 1'000'000;

  /// Returns Errc::invalid_argument with the offset if the text is no expression.
  static Expected<Pattern> compile(std::string_view expression);
  /// Returns the first match in `text` ('.' matches newlines too), or nothing.
  std::optional<Match> search(std::string_view text) const;
  /// Returns the number of capturing groups, without the whole match.
  size_t group_count() const { return group_count_; }

 private:
  Pattern() = default;

  std::shared_ptr<const void> code_;  // pcre2_code
  size_t group_count_ = 0;
};

}  // namespace cohort::tasks
