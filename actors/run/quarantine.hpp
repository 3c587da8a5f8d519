#pragma once
/// The prompts that a run plays no more, because they have killed the processes that played them:
/// <run folder>/quarantine.jsonl, one JSON object a line, in order. A resumed run reads it; delete
/// a line to have its prompt played again. Owner: the driver, alone. A line is on the disk before
/// add() returns. Bound: the groups that a run may quarantine (plan/flow/suspects.hpp).
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::actors {

struct QuarantineEntry {
  std::string prompt;  // TaskSource::prompt_id: "tag/seed", or file:line of the row
  std::string tag;
  uint64_t seed = 0;
  std::string kind;  // of the round: "train", "val" ...
  uint64_t step = 0;
  uint32_t group = 0;
  std::vector<std::string> deaths;  // how the processes ended that played it
  int64_t time_us = 0;              // wall time
  bool operator==(const QuarantineEntry&) const = default;
};

/// Returns the entry as one line of JSON, without its end.
std::string to_json(const QuarantineEntry& entry);

class Quarantine {
 public:
  /// Reads what is there; a line that was cut short by a crash is left out. Returns Errc::corrupt
  /// with file:line for one that cannot be read, Errc::io.
  static Expected<Quarantine> open(const std::filesystem::path& run_folder);

  /// Returns Errc::io naming the path.
  Expected<void> add(const QuarantineEntry& entry);
  const std::map<std::string, QuarantineEntry>& entries() const { return entries_; }

 private:
  std::filesystem::path path_;
  std::map<std::string, QuarantineEntry> entries_;  // by prompt
};

}  // namespace cohort::actors
