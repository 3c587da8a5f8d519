#include "runtime/plan/place/leak_watch.hpp"

#include <algorithm>
#include <utility>

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
  constexpr uint64_t k_noise_bytes = uint64_t{1} << 20;  // of a heap that does not rise
  Level& level = levels_[{name, phase}];
  Window& w = level.window;
  w.least = w.readings == 0 ? bytes : std::min(w.least, bytes);
  w.most = std::max(w.most, bytes);
  if (++w.readings < k_window) return std::nullopt;
  const Window done = std::exchange(w, {});
  const bool is_first = level.least_before == 0;
  const bool has_risen = !is_first && done.least > level.least_before + k_noise_bytes;
  level.least_before = done.least;
  level.rising = has_risen ? level.rising + 1 : 0;
  if (!has_risen) level.bytes = std::max(level.bytes, done.most);
  auto allowed =
      static_cast<uint64_t>(static_cast<double>(level.bytes) * (1 + k_rise)) + k_slack_bytes;
  if (level.rising < k_rising || done.least <= allowed) return std::nullopt;
  const uint64_t before = std::exchange(level.bytes, done.most);
  return "LEAK-2: " + name + " in phase " + std::string(to_string(phase)) + " holds " +
         with_thousands(done.most) + " bytes and has risen for " +
         std::to_string(level.rising * k_window) + " turns; its level was " +
         with_thousands(before);
}

}  // namespace cohort::plan
