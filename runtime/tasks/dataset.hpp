#pragma once
/// Rows to learn from: prompts with what is needed to score their answers. Two formats, told apart
/// row by row: ROLL's (messages as a JSON string or list, tag, domain, ground_truth, case_type,
/// test_cases) and verl's (data_source, prompt, ability, reward_model, extra_info), one JSON object
/// per line. Immutable after load; any thread may read.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

struct ChatMessage {
  std::string role;  // "system" | "user" | "assistant"
  std::string content;
  bool operator==(const ChatMessage&) const = default;
};

/// One row.
struct Sample {
  std::string id;           // "file:line"
  std::string data_source;  // verl's data_source; ROLL's tag, else its source
  std::string domain;       // ROLL's column; empty: follows from the tag
  std::vector<ChatMessage> messages;
  std::string ground_truth;
  std::string answer;   // a worked answer to imitate (warm start, SFT); may be empty
  std::string columns;  // JSON object of every column that has no field here
  bool operator==(const Sample&) const = default;
};

struct BadRow {
  std::string where;   // "file:line"
  std::string reason;  // what is wrong, what is expected
};

struct DatasetOptions {
  std::vector<std::string> files;         // .jsonl
  std::string messages_key = "messages";  // ROLL's column of the conversation
  std::string prompt_key = "prompt";      // verl's
  bool skips_bad_rows = false;            // else the first bad row is an error
};

class Dataset {
 public:
  /// Reads the files in order. Returns Errc::not_found for a file, Errc::config naming file:line
  /// for a bad row (unless they are skipped), Errc::config if nothing is left.
  static Expected<std::shared_ptr<const Dataset>> load(const DatasetOptions& options);
  /// For generated tasks and tests.
  static std::shared_ptr<const Dataset> of(std::vector<Sample> samples);

  size_t size() const { return samples_.size(); }
  const Sample& at(size_t row) const { return samples_[row]; }
  const std::vector<Sample>& samples() const { return samples_; }
  const std::vector<BadRow>& bad_rows() const { return bad_rows_; }

 private:
  std::vector<Sample> samples_;
  std::vector<BadRow> bad_rows_;
};

}  // namespace cohort::tasks
