#pragma once
/// Rows to learn from: prompts with the columns that score their answers. Two formats, told apart
/// row by row: ROLL's (messages as a JSON string or list, tag, domain, ground_truth, case_type,
/// test_cases) and verl's (data_source, prompt, ability, reward_model, extra_info), one JSON object
/// per line, or a parquet file's row as one (docs/data.md). Immutable after load; any thread may
/// read. Bound: a row takes its text and its columns' text; of the bad rows the first
/// k_bad_rows_kept are kept, all are counted.
/// DATA-1: a line is a row, a counted bad row, or blank; none is passed over in silence.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

struct ChatMessage {
  std::string role;  // "system" | "user" | "assistant" | "tool"
  std::string content;
  bool operator==(const ChatMessage&) const = default;
};

/// One row.
struct Sample {
  std::string id;           // "file:line", of parquet "file:row"; from 1
  std::string data_source;  // verl's data_source; ROLL's tag, else its source
  std::string domain;       // ROLL's column; empty: follows from the tag
  std::vector<ChatMessage> messages;
  std::string ground_truth;
  std::string answer;              // a worked answer to imitate (warm start, SFT); may be empty
  std::vector<std::string> calls;  // worked answers before it, which call tools
  std::string columns;             // JSON object of every column that has no field here
  bool operator==(const Sample&) const = default;
};

struct BadRow {
  std::string where;   // "file:line"
  std::string reason;  // the error and the expected form
};

struct DatasetOptions {
  std::vector<std::string> files = {};     // jsonl or parquet, by their first bytes
  std::string messages_key = "messages";   // ROLL's column of the conversation
  std::string prompt_key = "prompt";       // verl's conversation; ROLL's text of one user message
  std::string tag_key = "tag";             // ROLL's
  std::string source_key = "data_source";  // verl's reward_fn_key
  std::string answer_key = {};  // worked answer; empty: extra_info.answer, answer, response,
                                // solution, the first there is
  bool skips_bad_rows = false;  // else the first bad row is an error
};

class Dataset {
 public:
  static constexpr size_t k_bad_rows_kept = 1000;

  /// Reads the files in order. Returns Errc::not_found for a file, Errc::config naming file:line
  /// for a bad row (unless they are skipped), Errc::config if nothing is left; of a parquet file
  /// ParquetReader's errors with file and row.
  static Expected<std::shared_ptr<const Dataset>> load(const DatasetOptions& options);
  /// For generated tasks and tests.
  static std::shared_ptr<const Dataset> of(std::vector<Sample> samples);

  size_t size() const { return samples_.size(); }
  const Sample& at(size_t row) const { return samples_[row]; }
  const std::vector<Sample>& samples() const { return samples_; }
  /// The first k_bad_rows_kept of them, in file order.
  const std::vector<BadRow>& bad_rows() const { return bad_rows_; }
  size_t bad_row_count() const { return bad_row_count_; }
  /// Rows whose conversation an earlier row has too. They are kept.
  size_t repeated_count() const { return repeated_count_; }

 private:
  std::vector<Sample> samples_;
  std::vector<BadRow> bad_rows_;
  size_t bad_row_count_ = 0;
  size_t repeated_count_ = 0;
};

/// domain -> the data_sources (tags) that it scores; "*" among them: every other one too.
using TagsOfDomains = std::map<std::string, std::vector<std::string>>;
/// Returns the domain that scores the row: its own domain column if that is one of `tags`' keys,
/// else the domain whose list holds its data_source, else the one with "*", else the domain named
/// like the data_source. Returns Errc::config naming row, data_source and domains if there is none
/// (verl says so after the rollout was paid for; ROLL takes math_rule), or if two domains claim it.
Expected<std::string> domain_of(const Sample& sample, const TagsOfDomains& tags);

}  // namespace cohort::tasks
