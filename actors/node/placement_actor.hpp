#pragma once
/// Placement: the actor around plan::PhaseMachine (runtime/plan/place/phase_machine.hpp), which
/// plans the moves of a phase and repairs it after a loss. It sends the machine's commands to the
/// actors that own cards, hands it their answers and the node's words of losses and returns, and
/// records each phase before it is granted. Owner: node. Thread: CAF's scheduler.
#include <map>
#include <string>
#include <utility>

#include "actors/roles/role_handles.hpp"
#include "runtime/plan/place/phase_machine.hpp"

namespace cohort::actors {

struct PlacementOptions {
  plan::PhaseMachineOptions machine;
  /// Who executes commands for (role, card).
  std::map<std::pair<std::string, CardId>, CardActor> owners;
  RecorderActor recorder;
  int command_timeout_ms = 3600000;
};

PlacementActor spawn_placement(caf::actor_system& system, PlacementOptions options);

}  // namespace cohort::actors
