#pragma once
/// The groups of one batch on their way over the replicas: waiting, open, played, and the deaths
/// they caused. Pure. Owner: Players, one per open round. Bound: the groups of the batch.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/plan/flow/dispatch.hpp"
#include "runtime/plan/flow/stragglers.hpp"
#include "runtime/plan/flow/suspects.hpp"
#include "runtime/plan/run/commands.hpp"
#include "runtime/plan/run/run_options.hpp"

namespace cohort::plan::run {

struct Round {
  bool is_leased() const { return questions == 0 && dispatcher.waiting_groups() == 0; }
  /// The group waits, whole.
  void add(uint32_t group);

  RoundKey key;
  std::map<uint32_t, GroupTask> tasks;  // by group
  uint32_t group_size = 1;
  Dispatcher dispatcher;
  Suspects suspects;
  GroupClock clock;
  uint64_t response_tokens = 0;
  std::set<uint32_t> held = {};                 // groups not admitted yet (RunOptions::is_flowing)
  std::map<uint32_t, uint32_t> played_by = {};  // group that has ended: replica
  std::map<uint32_t, uint32_t> first_on = {};   // group: who had it first, of its last attempt
  std::map<uint32_t, uint32_t> attempts = {};   // group: how often it was leased again
  uint32_t questions = 0;                       // to the trainer: nothing is leased meanwhile
  bool is_collected = false;  // all of it is in the stream: nothing is leased any more
};

/// Returns the phase in which rounds of a kind are played. RunOptions::is_flowing: an evaluation is
/// played beside the steps.
PhaseKind phase_of(TrajectoryKind kind, const RunOptions& options);

/// The bytes of a control message, less those around a lease's groups.
inline constexpr size_t k_lease_bytes_max = 48 * 1024;

/// Packs the parts that one replica is to play into leases: in order, those of one attempt
/// together, and none above k_lease_bytes_max. `trajectory_bytes`: of each, beside its index.
std::vector<std::vector<DispatchPart>> pack_leases(Round& round,
                                                   const std::vector<DispatchPart>& parts,
                                                   size_t trajectory_bytes = 0);

}  // namespace cohort::plan::run
