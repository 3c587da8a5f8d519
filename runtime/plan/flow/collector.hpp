#pragma once
/// State of the trainer's collector: which trajectories of the open steps have arrived. Pure; the
/// trainer actor owns it, alone.
///
/// FLOW-1: a trajectory (kind, step, group, index) is accepted exactly once, whatever is repeated,
/// reordered, re-run under a higher attempt, or late; and its step is closed, that is consumed,
/// exactly once. Bound: one byte per place of the open steps (up to the highest group expected), at
/// most max_open_steps of them.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/trajectory_kind.hpp"
#include "runtime/plan/run/planted.hpp"

namespace cohort::plan {

struct StepKey {
  TrajectoryKind kind = TrajectoryKind::train;
  uint64_t step = 0;
  auto operator<=>(const StepKey&) const = default;
};

enum class Verdict : uint8_t {
  accepted = 0,   // new: record it, keep it, acknowledge it
  duplicate = 1,  // its step is open and already has it: acknowledge, forget
  late = 2,       // its step is closed: acknowledge, forget
  unknown = 3,    // no such step was opened yet, or group/index out of range: refuse
};

class Collector {
 public:
  explicit Collector(size_t max_open_steps = 4, Plant plant = Plant::none)
      : max_open_steps_(max_open_steps), plant_(plant) {}

  /// Expects groups * group_size trajectories. Steps of one kind open in rising order (a step
  /// number is used once). Returns Errc::invalid_argument for zero sizes or a step not above the
  /// last one of its kind, Errc::backpressure if max_open_steps are open.
  Expected<void> open_step(StepKey step, uint32_t groups, uint32_t group_size);
  /// Expects the trajectories of these groups too; their numbers are any that the step has not, and
  /// may leave gaps. Returns Errc::not_found if the step is not open, Errc::invalid_argument, and
  /// changes nothing, for a group that it has.
  Expected<void> extend_step(StepKey step, const std::vector<uint32_t>& groups);
  /// Returns what to do with an arrival. `attempt` never makes a second copy welcome; it is kept
  /// for reports.
  Verdict offer(const TrajectoryKey& key, uint32_t attempt = 0);
  bool is_step_complete(StepKey step) const;
  /// Returns accepted and expected counts of an open step; {0, 0} otherwise.
  std::pair<uint64_t, uint64_t> progress(StepKey step) const;
  /// Returns the first `limit` missing trajectories in (group, index) order, to name them in a
  /// timeout.
  std::vector<TrajectoryKey> missing(StepKey step, size_t limit) const;

  /// Hands the complete step over to training: the keys in (group, index) order, the one order of
  /// training. Returns Errc::not_found if it is not open, Errc::invalid_argument if it is
  /// incomplete (names what lacks).
  Expected<std::vector<TrajectoryKey>> close_step(StepKey step);

  /// Aborts the process if FLOW-1 or a bound does not hold.
  void assert_invariants() const;

 private:
  enum class Place : uint8_t { missing, accepted, gap };  // gap: no such trajectory is expected
  struct Step {
    uint32_t groups = 0, group_size = 0;  // groups: above the highest
    std::vector<Place> places;            // [groups * group_size]
    std::vector<uint32_t> group_count;    // [groups], accepted in the group
    uint64_t expected = 0;                // trajectories
    uint64_t count = 0;                   // of them accepted
  };
  const Step* find(StepKey step) const;

  size_t max_open_steps_;
  Plant plant_;
  std::map<StepKey, Step> steps_;
  std::map<TrajectoryKind, uint64_t> last_opened_;  // kind -> step
  uint64_t accepted_total_ = 0;
  uint64_t closed_total_ = 0;  // trajectories of closed steps
};

std::string_view to_string(Verdict verdict);
/// Returns e.g. "step 3 of kind 0, group 7, index 1".
std::string to_text(const TrajectoryKey& key);

}  // namespace cohort::plan
