#pragma once
/// The prompts of pipeline rlvr: rows of the training and the held-out files, which rewards score
/// each of them, and the tokens the policy reads. Opened once before a run, by every process that
/// generates or scores. Immutable after open(); any thread may read. Bound: the files, and four
/// bytes per prompt token.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/config/run_config.hpp"
#include "runtime/tasks/chat_format.hpp"
#include "runtime/tasks/dataset.hpp"
#include "runtime/tasks/text_environment.hpp"

namespace cohort::actors {

/// One row that is used.
struct Prompt {
  const tasks::Sample* sample = nullptr;
  std::string domain;                // an entry of rewards: its tag in trajectories and metrics
  std::vector<std::string> scorers;  // entries of rewards
  std::vector<int32_t> tokens;
};

struct PromptCounts {
  uint64_t rows = 0;      // read
  uint64_t bad = 0;       // that could not be
  uint64_t overlong = 0;  // dropped by filter_overlong_prompts
  uint64_t truncated = 0;
};

class PromptSet {
 public:
  /// Reads, checks and tokenises every row. Errors (Errc::config): a file or a row (file:line), a
  /// row that no reward scores, a prompt above prompt_length under truncation error, one that the
  /// chat template refuses or the tokenizer cannot write.
  static Expected<std::shared_ptr<const PromptSet>> open(
      const config::RunConfig& config, std::shared_ptr<const tasks::ChatFormat> chat);

  /// Rows [0, train_rows()) train; the held-out ones come behind them.
  const Prompt& at(size_t row) const { return prompts_[row]; }
  size_t size() const { return prompts_.size(); }
  size_t train_rows() const { return train_rows_; }
  const PromptCounts& counts() const { return counts_; }
  /// Returns the row's messages, behind the system prompt if they have none.
  std::vector<tasks::ChatMessage> dialogue(const tasks::Sample& sample) const;
  /// Returns the text the model reads.
  std::string text(size_t row) const;
  const tasks::ChatFormat& chat() const { return *chat_; }
  /// generating_args.stop_strings: each ends an answer.
  const std::vector<std::string>& stop_strings() const { return stop_strings_; }

 private:
  explicit PromptSet(std::shared_ptr<const tasks::ChatFormat> chat) : chat_(std::move(chat)) {}
  Expected<void> add(const config::RunConfig& config, const config::DataArgs& data,
                     const std::string& key);
  std::shared_ptr<const tasks::ChatFormat> chat_;
  std::string system_prompt_;
  std::vector<std::string> stop_strings_;
  std::vector<std::shared_ptr<const tasks::Dataset>> files_;
  std::vector<Prompt> prompts_;
  size_t train_rows_ = 0;
  PromptCounts counts_;
};

/// A row as an environment of one turn: its seed is the row, every answer ends it, and what the
/// answer is worth the rewards will say. Its scripted player gives the row's own answer.
std::unique_ptr<tasks::Environment> make_prompt_world(std::shared_ptr<const PromptSet> prompts);

}  // namespace cohort::actors
