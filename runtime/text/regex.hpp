#pragma once
/// A small regular-expression matcher for the patterns of tokenizer.json: the part of Oniguruma's
/// Ruby syntax that tokenizers use. Alternation is ordered, loops back off, as in Perl. Built are
/// literals, ., \s \S \d \D \w \W \h, \p{..} of general categories and of Han, classes with
/// ranges, ^ and &&[..], (?:..) (..) (?i:..) (?>..) (?=..) (?!..), ^ $ \A \z \b \B, and
/// * + ? {n,m}, greedy, lazy (a ? behind) and possessive (a + behind * + ?; "{n,m}+" repeats the
/// group, as in Ruby).
/// Refused: look-behind, back references, other cases beyond ASCII, POSIX brackets, other nested
/// classes, a loop whose body may be empty.
/// Pure, thread-safe. Bound: no recursion over the text; the caller's StepBudget bounds time, and a
/// find holds at most k_frames_max backtracking points.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/text/nfc.hpp"
#include "runtime/text/unicode.hpp"

namespace cohort::text {

/// A set of characters.
class CharacterSet {
 public:
  void add_range(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
  /// Adds each character whose category is in `set`, or, if `is_negated`, is not.
  void add_categories(GcSet set, bool is_negated) { categories_ |= is_negated ? ~set : set; }
  enum class Kind : uint8_t { space, not_space, word, not_word };
  void add_kind(Kind kind) { kinds_ |= 1U << static_cast<unsigned>(kind); }
  void negate() { is_negated_ = !is_negated_; }
  /// Keeps of what is added, before or later, what is in `other` too.
  void intersect(CharacterSet other) { others_.push_back(std::move(other)); }
  /// Adds the other case of each ASCII letter, and U+212A for k, U+017F for s. Returns false if
  /// that is not all that case folding would add.
  bool add_other_case();
  /// Computes what contains() reads for ASCII; the last call before it.
  void finish();
  bool contains(char32_t c) const {
    return c < 128 ? (ascii_[c >> 6] >> (c & 63) & 1) != 0 : find(c);
  }

 private:
  bool find(char32_t c) const;
  struct Range {
    char32_t first, last;
  };
  std::vector<Range> ranges_;
  std::vector<CharacterSet> others_;  // intersected
  GcSet categories_ = 0;
  uint32_t kinds_ = 0;
  bool is_negated_ = false;
  uint64_t ascii_[2] = {0, 0};
};

struct StepBudget {
  uint64_t steps;  // left; a step looks at one character or one backtracking point
};

class Regex {
 public:
  static constexpr size_t k_pattern_bytes_max = 4096;
  static constexpr size_t k_frames_max = size_t{1} << 20;

  /// Returns Errc::unsupported or Errc::config, with the pattern and the place, for what this
  /// matcher cannot express or what is no regular expression.
  static Expected<Regex> compile(std::string_view pattern);

  enum class Result : uint8_t { found, none, out_of_steps };
  /// Looks for the first match that begins at `from` or later. REQUIRES: valid UTF-8.
  Result find(std::string_view text, size_t from, Span& match, StepBudget& budget) const;

  struct Instruction {
    enum class Op : uint8_t {
      set,
      loop,
      lazy_loop,
      split,
      jump,
      line_begin,
      line_end,
      text_begin,
      text_end,
      border,  // a: the set of word characters
      not_border,
      look,
      not_look,
      atomic,
      look_end,
      not_look_end,
      atomic_end,
      match,
    };
    Op op;
    /// set, loop, border: which set; split: tried first; look..atomic: where to go on behind the
    /// group.
    uint32_t a = 0;
    uint32_t b = 0;    // split: tried second
    uint32_t min = 0;  // loop [characters]
    uint32_t max = 0;
  };

 private:
  friend class RegexParser;
  Result match_at(std::string_view text, size_t from, size_t& end, StepBudget& budget) const;
  std::vector<Instruction> program_;
  std::vector<CharacterSet> sets_;
};

}  // namespace cohort::text
