#pragma once
/// A run as its folder has it, put on a board: of one that is over, or that another process writes.
/// Owner: one thread. Bound: that of StepIndex, and one row.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "runtime/observe/board.hpp"
#include "runtime/stream/reader.hpp"
#include "runtime/tasks/tokenizer.hpp"
#include "tools/actor-node/step_index.hpp"

namespace cohort {

class SavedRun {
 public:
  /// Shows config, plan and metrics of `folder` on the board. Returns Errc::not_found if it is no
  /// run folder, Errc::config if its config.yaml cannot be read.
  static Expected<SavedRun> open(const std::filesystem::path& folder, observe::Board& board);

  /// Shows what has been written since: steps, moves on cards, events, and the run's end.
  void follow(observe::Board& board);
  const std::filesystem::path& folder() const { return folder_; }  // absolute
  /// Null if the run's tokenizer cannot be opened; `tokenizer_error()` says why.
  const std::shared_ptr<const tasks::Tokenizer>& tokenizer() const { return tokenizer_; }
  const std::string& tokenizer_error() const { return tokenizer_error_; }

 private:
  void follow_metrics(observe::Board& board);
  Expected<void> follow_stream(observe::Board& board);
  Expected<void> show_moves(observe::Board& board, const stream::RecordInfo& info);
  Expected<void> show_event(observe::Board& board, const stream::RecordInfo& info);
  void show_state(observe::Board& board);

  std::filesystem::path folder_;
  std::shared_ptr<const tasks::Tokenizer> tokenizer_;
  std::string tokenizer_error_;
  uint64_t metrics_read_ = 0;  // [bytes]
  std::optional<StepIndex> index_;
  std::optional<stream::Reader> reader_;
  uint64_t moves_shown_ = 0, events_shown_ = 0;  // records below are shown
  std::optional<observe::RunState> state_;
};

}  // namespace cohort
