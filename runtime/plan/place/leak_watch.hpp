#pragma once
/// Finds memory that a phase did not give back. Pure; owner: placement, one per run.
///
/// LEAK-1: when a phase has been set up, what the card's allocator has given out is what the ledger
/// says the card's objects take. Whatever is above it belongs to nobody.
/// LEAK-2: the memory of a process, at the same point of the same phase, does not rise without
/// end. Readings are looked at k_window at a time, by their least: heaps keep what the longest
/// sequence so far took, so memory rises by jumps, ever rarer, and stays. A leak rises in every
/// window: after k_rising windows in a row that each rose, a least reading above
/// level * (1 + k_rise) + k_slack_bytes is an alarm. The level is the most of the last window that
/// did not rise; after an alarm it is that window's most, so that a steady leak is told again when
/// it has grown again, not every step.
/// Bound: one entry per phase.
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/plan/place/residency.hpp"

namespace cohort::plan {

class LeakWatch {
 public:
  static constexpr int k_window = 4;      // [readings]
  static constexpr int k_rising = 3;      // [windows]
  static constexpr double k_rise = 0.05;  // of the level
  static constexpr uint64_t k_slack_bytes = uint64_t{32} << 20;

  /// Returns the alarm's text if `allocated` is more than `ledger` (LEAK-1).
  std::optional<std::string> card(CardId card, PhaseKind phase, uint64_t ledger,
                                  uint64_t allocated) const;
  /// Returns the alarm's text if this reading ends a window that shows a leak (LEAK-2).
  std::optional<std::string> process(const std::string& name, PhaseKind phase, uint64_t bytes);

 private:
  struct Window {
    int readings = 0;
    uint64_t least = 0, most = 0;  // [bytes]
  };
  struct Level {
    Window window;
    uint64_t least_before = 0;  // [bytes] of the window before
    uint64_t bytes = 0;
    int rising = 0;  // windows in a row
  };
  std::map<std::pair<std::string, PhaseKind>, Level> levels_;
};

}  // namespace cohort::plan
