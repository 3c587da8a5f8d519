#pragma once
/// The question to a judge and the score of its reply. Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/tasks/text_reward.hpp"

namespace cohort::plugin {

/// Text with {prompt} {response} {ground_truth} {data_source} in it, filled in one pass: a
/// filled-in text is never searched for placeholders. Other braces stay as they are.
class JudgeTemplate {
 public:
  /// Returns Errc::config for a {word} that is no placeholder, or if {response} is missing.
  static Expected<JudgeTemplate> create(std::string_view text);
  std::string fill(const tasks::RewardRow& row) const;

 private:
  using Field = std::string tasks::RewardRow::*;
  struct Piece {
    std::string text;
    Field field = nullptr;  // follows the text; null: the last piece
  };
  std::vector<Piece> pieces_;
};

/// The default template.
std::string_view default_judge_template();

/// Reads a score in [0, 1] out of a reply, behind its last </think>:
///   "Score: x" (the last one; letter case and * _ around it do not matter; "x/y" is x divided by
///   y) gives x / scale, or with scale 0 ROLL's rule: x, divided by 10 if it is above 1; clamped.
///   Else yes is 1 and no is 0, as whole words: if both are there, the first word of the reply or
///   else its last one decides.
/// Returns Errc::invalid_argument if neither is there: a reply without a verdict is no 0.
Expected<double> read_verdict(std::string_view reply, double scale);

/// Returns the verdict of a reply with its beginning as the detail, or the error that there is
/// none. `is_cut`: the reply ended at `max_tokens`.
tasks::RewardResult judged(std::string_view reply, double scale, bool is_cut, uint32_t max_tokens);

}  // namespace cohort::plugin
