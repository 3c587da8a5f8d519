#pragma once
/// Card process: the role actors of some of a run's cards, in a process of their own, for a node in
/// another one. Owner: main of `actor-node-run card`. Thread: CAF's scheduler. It spawns the roles,
/// tells the node their handles, and ends when it is told to (stop) or when the node is gone, and
/// they with it; restarts nothing: the node decides.
#include <functional>
#include <string>
#include <vector>

#include "actors/node/role_spawner.hpp"

namespace cohort::actors {

///   (stop): end; (ping, n) -> n
using CardProcessActor =
    caf::typed_actor<caf::reacts_to<control::stop_atom>,
                     caf::replies_to<control::ping_atom, uint64_t>::with<uint64_t>>;

struct CardProcessOptions {
  config::RunConfig config;
  Preflight plan;
  control::ProcessWelcome welcome;
  Wires wires;
  uint32_t slot = 0;
  NodeActor node;
  std::function<void(std::string reason)> on_end;  // once; empty reason: told to end
};

CardProcessActor spawn_card_process(caf::actor_system& system, CardProcessOptions options);

}  // namespace cohort::actors
