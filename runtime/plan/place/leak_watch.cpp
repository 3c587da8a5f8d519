#include "runtime/plan/place/leak_watch.hpp"

#include <algorithm>

namespace cohort::plan {

std::optional<std::string> LeakWatch::card(CardId card, PhaseKind phase, uint64_t ledger,
                                           uint64_t allocated) const {
  if (allocated <= ledger) return std::nullopt;
  return "LEAK-1: card " + std::to_string(card.value) + " in phase " +
         std::string(to_string(phase)) + ": " + with_thousands(allocated - ledger) +
         " bytes belong to no object (allocated " + with_thousands(allocated) + ", objects " +
         with_thousands(ledger) + ")";
}

std::optional<std::string> LeakWatch::process(const std::string& name, PhaseKind phase,
                                              uint64_t bytes) {
  Level& level = levels_[{name, phase}];
  if (level.readings < k_settling) {
    level.bytes = std::max(level.bytes, bytes);
    ++level.readings;
    return std::nullopt;
  }
  auto allowed =
      static_cast<uint64_t>(static_cast<double>(level.bytes) * (1 + k_rise)) + k_slack_bytes;
  if (bytes <= allowed) return std::nullopt;
  uint64_t before = level.bytes;
  level.bytes = bytes;
  return "LEAK-2: " + name + " in phase " + std::string(to_string(phase)) + " holds " +
         with_thousands(bytes) + " bytes; its level was " + with_thousands(before);
}

}  // namespace cohort::plan
