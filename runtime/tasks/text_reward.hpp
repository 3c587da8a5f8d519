#pragma once
/// A reward's input and output: the seam between a source of answers (a run, `actor-node score`, a
/// stream) and a judge of them (a built-in rule, a plugin, a sandbox, a remote judge). Values; a
/// Reward belongs to its opener. REWARD-1: one result per row, in the order of the rows; a row's
/// failure is in its result (`error`), never thrown and never another row's. REWARD-2: score()
/// ends: a reward that waits for something outside has a deadline.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

/// One answer and the facts of its prompt.
struct RewardRow {
  std::string id;  // names the row in messages: "rows.jsonl:17", "train/step 3/group 1/index 0"
  std::string response;  // decoded answer, special tokens left out
  std::string prompt;    // the text the model read
  std::string messages;  // JSON list of {"role", "content"}; empty: prompt is one user message
  std::string ground_truth;
  std::string data_source;  // verl's data_source; ROLL's tag
  std::string columns;  // JSON object of the row's further columns (extra_info, test_cases, …)
  uint32_t response_tokens = 0;
  bool is_finished =
      true;  // the model ended its answer itself; false: it was cut by the token budget
};

/// The result of one row.
struct RewardResult {
  double score = 0;
  std::vector<std::pair<std::string, double>> parts;  // further numbers, e.g. {"acc", 1}
  std::string detail;  // verdict in words, e.g. "wrong answer in case 3"; may be empty
  std::string error;   // not empty: there is no score, and why
  bool operator==(const RewardResult&) const = default;
};

/// Returns the result of a row that has no score.
inline RewardResult without_score(std::string why) {
  RewardResult result;
  result.error = std::move(why);
  return result;
}

class Reward {
 public:
  Reward() = default;
  Reward(const Reward&) = delete;
  Reward& operator=(const Reward&) = delete;
  virtual ~Reward() = default;

  /// Scores the rows (REWARD-1, REWARD-2). May be called from concurrency() threads at once.
  virtual std::vector<RewardResult> score(std::span<const RewardRow> rows) = 0;
  /// Returns how many calls at once are of use; 0: pure arithmetic, called where its caller is.
  virtual uint32_t concurrency() const { return 0; }
  /// Takes the newer version of whatever it was loaded from, if there is one. Called between steps,
  /// with no score() under way. Returns whether it changed; on an error the old version stays.
  virtual Expected<bool> reload() { return false; }
  /// Ends every score() under way and every later one early, with an error in its results. Any
  /// thread.
  virtual void stop() {}
};

}  // namespace cohort::tasks
