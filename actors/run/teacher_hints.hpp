#pragma once
/// What a teacher reads in the place of a row's prompt where the policy teaches itself (ROLL's
/// opsd_mode): the problem and its reference solution, which the policy does not see. Opened once
/// before a run; immutable, any thread may read. Bound: four bytes per token.
/// HINT-1: a teacher's prompt and the longest answer fit sequence_length; a solution that is too
/// long for that, or for opsd_max_solution_length, is cut behind its last token that fits.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/run/prompt_set.hpp"
#include "runtime/tasks/tokenizer.hpp"

namespace cohort::actors {

class TeacherHints {
 public:
  /// Writes the teacher's prompt of each training row. Errors (Errc::config): a row without a
  /// solution (file:line), a template, a problem that leaves no room.
  static Expected<std::shared_ptr<const TeacherHints>> open(const config::RunConfig& config,
                                                            const PromptSet& prompts,
                                                            const tasks::Tokenizer& tokenizer);

  /// REQUIRES: a training row.
  std::span<const int32_t> prompt(size_t row) const { return prompts_[row]; }
  /// Returns how many solutions were cut.
  uint64_t cut() const { return cut_; }

 private:
  TeacherHints() = default;
  std::vector<std::vector<int32_t>> prompts_;
  uint64_t cut_ = 0;
};

}  // namespace cohort::actors
