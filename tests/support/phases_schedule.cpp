#include "tests/support/phases_schedule.hpp"

#include <algorithm>

namespace cohort::plan {
namespace {

PhaseBytes bytes_now(const PlacementPlan& plan, const Ledger& ledger, CardId card,
                     PhaseKind phase) {
  PhaseBytes now{card, phase, ledger.bytes_on(card), {}};
  for (const RoleSpec& role : plan.roles)
    for (const auto& [object, predicted] : role.bytes_per_card) {
      auto found = ledger.entries().find({card, role.role, object});
      if (found == ledger.entries().end()) continue;
      const Ledger::Entry& entry = found->second;
      uint64_t coming = entry.in_flight && entry.in_flight->to == Place::card ? predicted : 0;
      if (entry.place == Place::card || coming > 0)
        now.objects.push_back({role.role, object, std::max(entry.card_bytes, coming)});
    }
  return now;
}

void note_peak(const PlacementPlan& plan, const Ledger& ledger, CardId card,
               PhaseSchedule& schedule) {
  auto peak = std::ranges::find(schedule.peaks, card, &PhaseBytes::card);
  if (peak != schedule.peaks.end() && ledger.bytes_on(card) > peak->bytes)
    *peak = bytes_now(plan, ledger, card, schedule.phase);
}

/// Executes a phase on the ledger alone: every command is acknowledged with the bytes predicted.
Expected<PhaseSchedule> run_phase(const PlacementPlan& plan, Ledger& ledger, PhaseKind phase,
                                  OffloadPolicy policy) {
  PhaseSchedule schedule;
  schedule.phase = phase;
  COHORT_ASSIGN(schedule.commands, commands_for(plan, ledger, phase, policy));
  // What a phase finds on a card and sends away at once is counted in the phase before.
  bool has_arrivals = false;
  Command previous;
  for (const Command& command : schedule.commands) {
    auto move = transition_of(command);
    if (move) COHORT_TRY(ledger.begin(*move));
    if (command.verb == Command::Verb::begin_phase) COHORT_TRY(ledger.begin_phase(phase));
    // The answer is the same for every card of a role: asked once, it keeps large plans linear.
    if (command.verb != previous.verb || command.role != previous.role)
      COHORT_TRY(check_command(plan, ledger, command));
    previous = command;
    if (!has_arrivals && (!move || move->to == Place::card)) {
      has_arrivals = true;
      for (const CardSpec& card : plan.cards)
        schedule.peaks.push_back(bytes_now(plan, ledger, card.id, phase));
    }
    if (move) {
      note_peak(plan, ledger, command.card, schedule);
      COHORT_TRY(ledger.commit(*move, command.bytes));
    }
  }
  for (const CardSpec& card : plan.cards)
    schedule.held.push_back(bytes_now(plan, ledger, card.id, phase));
  if (!has_arrivals) schedule.peaks = schedule.held;
  return schedule;
}

}  // namespace

Expected<std::vector<PhaseSchedule>> schedule_steps(const PlacementPlan& plan, OffloadPolicy policy,
                                                    uint64_t steps) {
  Ledger ledger{plan.mode, plan.cards};
  std::vector<PhaseSchedule> schedules;
  COHORT_ASSIGN(PhaseSchedule init, run_phase(plan, ledger, PhaseKind::init, policy));
  schedules.push_back(std::move(init));
  for (uint64_t step = 1; step <= steps; ++step)
    for (PhaseKind phase : step_phases(plan)) {
      COHORT_ASSIGN(PhaseSchedule schedule, run_phase(plan, ledger, phase, policy));
      schedule.step = step;
      schedules.push_back(std::move(schedule));
    }
  return schedules;
}

}  // namespace cohort::plan
