#pragma once
/// A dry run of the first steps of a plan: which commands each phase takes and what every card
/// holds. Pure: runs commands_for and the ledger, touches no card. For
/// the capacity check's proof. Bound: one entry per phase, in it one per command and card.
#include <cstdint>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plan/place/phases.hpp"
#include "runtime/plan/place/placement.hpp"

namespace cohort::plan {

struct PhaseSchedule {
  uint64_t step = 0;  // 0: before the first step
  PhaseKind phase = PhaseKind::init;
  std::vector<Command> commands;
  std::vector<PhaseBytes> peaks;  // per card: the most between any two of the commands
  std::vector<PhaseBytes> held;   // per card: when the last command is done
};

/// Returns init, then `steps` times step_phases. The second step is the steady state: the first has
/// the fill of the reference and no update before it. Returns the errors of commands_for and of the
/// ledger, so a plan that does not fit its cards is Errc::capacity.
Expected<std::vector<PhaseSchedule>> schedule_steps(const PlacementPlan& plan, OffloadPolicy policy,
                                                    uint64_t steps);

}  // namespace cohort::plan
