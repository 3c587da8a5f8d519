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

class CardProcessState {
 public:
  static inline const char* name = "card_process";
  explicit CardProcessState(CardProcessActor::pointer self) : self_(self) {}
  ~CardProcessState();
  void open(CardProcessOptions options);
  void on_stop(const std::string& reason);

 private:
  CardProcessActor::pointer self_;
  CardProcessOptions options_;
  std::unique_ptr<RoleSpawner> spawner_;
  std::vector<caf::strong_actor_ptr> roles_;
  bool is_over_ = false;
};

CardProcessActor::behavior_type card_process(
    CardProcessActor::stateful_pointer<CardProcessState> self, CardProcessOptions options);

}  // namespace cohort::actors
