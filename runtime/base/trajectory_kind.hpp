#pragma once
/// Identity of a trajectory: the round that it was played for, and its place in it. One key enters
/// one optimizer step (FLOW-1), whatever process dies and whatever message repeats.
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace cohort {

/// Which round a trajectory belongs to. The numbers are on the wire and in streams: append only.
enum class TrajectoryKind : uint8_t { train = 0, val = 1, val_greedy = 2, warm_start = 3 };

/// Returns the stable name, e.g. "val_greedy"; "unknown" if `kind` is no enumerator.
std::string_view to_string(TrajectoryKind kind);

struct TrajectoryKey {
  TrajectoryKind kind = TrajectoryKind::train;
  uint64_t step = 0;
  uint32_t group = 0;
  uint32_t index = 0;
  auto operator<=>(const TrajectoryKey&) const = default;
};

/// Returns "train/step 3/group 1/index 0", for messages.
std::string to_string(const TrajectoryKey& key);

}  // namespace cohort
