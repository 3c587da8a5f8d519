#pragma once
/// The rows of pipelines sft, distill, dpo and rm as ids and masks: those that train, then those
/// held out (docs/sft.md, docs/distillation.md, docs/preference.md). A row of sft and distill is
/// one dialogue, of the others a pair: prompt and chosen answer, prompt and rejected answer. Opened
/// once before a run, by the process that feeds the trainer. Immutable after open(); any thread may
/// read. Bound: five bytes a token of the rows.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/run_config.hpp"
#include "runtime/tasks/sft_row.hpp"
#include "runtime/tasks/tokenizer.hpp"

namespace cohort::actors {

/// Metrics of such a trajectory.
inline constexpr std::string_view k_row_truncated = "truncated";
inline constexpr std::string_view k_row_without_end = "without_end";

struct RowCounts {
  uint64_t rows = 0;  // read
  uint64_t bad = 0;   // that could not be (skip_bad_rows)
  // of dialogues
  uint64_t truncated = 0;  // longer than sequence_length
  uint64_t uncounted = 0;  // nothing of the assistant is left of them
  uint64_t without_end = 0;
};

class RowSet {
 public:
  /// Reads, checks and tokenises every row. Returns Errc::config for a file or a row, with
  /// file:line and what to do: one without a turn of the assistant, an unknown role, a template
  /// that raises, a row above sequence_length under truncation error.
  static Expected<std::shared_ptr<const RowSet>> open(
      const config::RunConfig& config, std::shared_ptr<const tasks::Tokenizer> tokenizer);

  /// Rows [0, train_rows()) train; the held-out ones come behind them. Answer 0 of a pair is the
  /// chosen one.
  const tasks::MaskedTokens& at(size_t row, size_t answer = 0) const {
    return dialogues_[row * answers_ + answer];
  }
  const std::string& id(size_t row) const { return ids_[row]; }  // file:line
  size_t size() const { return ids_.size(); }
  size_t answers() const { return answers_; }      // of a row
  const std::string& tag() const { return tag_; }  // of their trajectories: the pipeline
  size_t train_rows() const { return train_rows_; }
  const RowCounts& counts() const { return counts_; }
  std::string text(std::span<const int32_t> ids) const { return tokenizer_->decode(ids); }
  /// Returns the optimizer steps of num_train_epochs.
  uint64_t steps_of(const config::RunConfig& config) const;

 private:
  class Reader;
  std::shared_ptr<const tasks::Tokenizer> tokenizer_;
  std::vector<tasks::MaskedTokens> dialogues_;
  size_t answers_ = 1;
  std::string tag_;
  std::vector<std::string> ids_;
  size_t train_rows_ = 0;
  RowCounts counts_;
};

}  // namespace cohort::actors
