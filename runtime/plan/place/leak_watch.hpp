#pragma once
/// Finds memory that a phase did not give back. Pure; owner: placement, one per run.
///
/// LEAK-1: when a phase has been set up, what the card's allocator has given out is what the ledger
/// says the card's objects take. Whatever is above it belongs to nobody.
/// LEAK-2: the memory of a process, at the same point of the same phase, does not rise from step to
/// step: the level of a phase is the most of its first k_settling readings, and a reading above
/// level * (1 + k_rise) + k_slack_bytes is an alarm. After an alarm the level is that reading, so
/// that a steady leak is told again when it has grown again, not every step.
/// Bound: one entry per phase.
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/plan/place/residency.hpp"

namespace cohort::plan {

class LeakWatch {
 public:
  static constexpr int k_settling = 4;    // [readings] pools and heaps fill in the first steps
  static constexpr double k_rise = 0.05;  // of the level
  static constexpr uint64_t k_slack_bytes = uint64_t{32} << 20;

  /// Returns the alarm's text if `allocated` is more than `ledger` (LEAK-1).
  std::optional<std::string> card(CardId card, PhaseKind phase, uint64_t ledger,
                                  uint64_t allocated) const;
  /// Returns the alarm's text if the process holds more than this phase's level (LEAK-2).
  std::optional<std::string> process(const std::string& name, PhaseKind phase, uint64_t bytes);

 private:
  struct Level {
    int readings = 0;
    uint64_t bytes = 0;
  };
  std::map<std::pair<std::string, PhaseKind>, Level> levels_;
};

}  // namespace cohort::plan
