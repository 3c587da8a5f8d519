#pragma once
/// Regular expressions over bytes in linear time: what the policy wrote is hostile input, and a
/// backtracking matcher would let it stall an actor (or overflow its stack). A Pike virtual machine
/// (R. Cox, "Regular Expression Matching: the Virtual Machine Approach", 2009) with Perl's
/// priorities, so that the first match and its groups are those of Python's re.search(pattern,
/// text, re.DOTALL). Understood: literals, '.', classes [a-z^], escapes \d \w \s \D \W \S \n \t \r
/// and quoted punctuation, groups ( ) (?: ), '|', greedy and lazy * + ? {n} {n,} {n,m}, anchors ^
/// $. Anything else is an error, not a guess. Immutable after compile: any thread may search.
#include <bitset>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

class Pattern {
 public:
  using ByteSet = std::bitset<256>;
  enum class Op : uint8_t { set, split, jump, save, begin, end, match };
  /// One instruction of the machine. split prefers x to y; save stores the position into slot x.
  struct Instruction {
    Op op = Op::match;
    uint32_t x = 0;
    uint32_t y = 0;
  };
  /// Captured texts; [0] is the whole match, an absent group took no part in it.
  using Match = std::vector<std::optional<std::string_view>>;

  /// Returns Errc::invalid_argument with the offset if the text is not an expression we understand.
  static Expected<Pattern> compile(std::string_view expression);
  /// Returns the first match in `text` ('.' matches newlines too), or nothing.
  std::optional<Match> search(std::string_view text) const;
  /// Returns the number of capturing groups, without the whole match.
  size_t group_count() const { return group_count_; }

 private:
  Pattern() = default;

  std::vector<Instruction> program_;
  std::vector<ByteSet> sets_;
  size_t group_count_ = 0;
};

}  // namespace cohort::tasks
