#pragma once
/// What placement does on a plan, as a graph: the real commands_for, Ledger, check_command,
/// check_compute and VersionTable, driven as actors/node/placement_actor.cpp drives them, for
/// every phase a driver may ask for in every state that the ledger can reach between two phases.
/// The explorers (place_explorer.hpp, plan_random_walk_test.cpp) put agents and a faulty network
/// around it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/place/phases.hpp"
#include "runtime/plan/place/version_table.hpp"

namespace cohort::test {

/// Rules broken on purpose, to show that the explorers see it.
struct Defects {
  // planner
  bool cache_before_offload = false;  // init_cache is the first command of generate
  bool begins_first = false;          // begin_phase is sent before the moves
  bool keeps_train_params = false;    // train_params stay when generate begins
  bool is_ledger_blind = false;       // placement goes on when the ledger or a check refuses
  bool serves_early = false;          // the version table waits for the first shard only
  // messages
  bool acks_before_freeing = false;  // an agent answers an offload, and frees later
  bool ignores_ids = false;          // an agent executes an old command when it comes again
  bool accepts_any_ack = false;      // placement takes an old answer for the current one
  bool never_retries = false;
};

/// Who executes commands for one role on one card.
struct Agent {
  size_t role = 0;  // index in plan.roles
  CardId card;
  std::vector<plan::Object> objects;
  std::vector<uint64_t> bytes;  // of each object on the card
};

/// One message of placement and what it waits for.
struct Step {
  plan::Command command;
  uint32_t agent = 0;
  uint32_t command_index = 0;          // equal commands have equal indices
  bool is_source = false;              // the trainer's half of a reshard
  bool is_publishing = false;          // publish has begun and no other phase yet: PLACE-3's window
  bool serves_current = false;         // the version of this publish is servable already
  std::vector<uint32_t> targets = {};  // is_source: the agents that get the weights
};

/// A phase, from one state between phases to the next.
struct Edge {
  plan::PhaseKind phase = plan::PhaseKind::init;
  std::vector<Step> steps;
  size_t to = 0;  // boundary
};

/// A state between two phases: what the ledger holds, and the phase that was granted.
struct Boundary {
  plan::Ledger ledger;
  plan::VersionTable versions;
  uint64_t version = 0;
  std::optional<plan::PhaseKind> granted;
  bool is_publishing = false;
  bool serves_current = false;
  std::vector<Edge> edges;
};

class World {
 public:
  World(plan::PlacementPlan plan, plan::OffloadPolicy policy, Defects defects);
  /// Adds every reachable boundary and edge. Returns what a rule of the ledger or a check refused:
  /// empty if nothing.
  std::string build();
  /// Adds one edge. Returns false if the phase may not come now, or if something was refused.
  bool extend(size_t boundary, plan::PhaseKind phase, Edge& edge, Boundary& next);

  const plan::PlacementPlan& plan() const { return plan_; }
  const Defects& defects() const { return defects_; }
  const std::vector<Agent>& agents() const { return agents_; }
  const std::vector<Boundary>& boundaries() const { return boundaries_; }
  const std::vector<plan::Command>& commands() const { return commands_; }
  const std::string& refusal() const { return refusal_; }
  uint32_t agent_of(const std::string& role, CardId card) const;

 private:
  struct Run;  // one phase being driven
  bool is_askable(plan::PhaseKind phase) const;
  void break_plan(std::vector<plan::Command>& commands) const;
  bool drive(Run& run, const plan::Command& command);
  bool publish_from_trainer(Run& run, const plan::Command& command);
  bool finish(Run& run);
  Step make_step(const Run& run, const plan::Command& command);
  bool refused(const Expected<void>& result);
  size_t intern(Boundary boundary);
  std::vector<uint8_t> key_of(const Boundary& boundary) const;

  plan::PlacementPlan plan_;
  plan::OffloadPolicy policy_;
  Defects defects_;
  std::vector<Agent> agents_;
  std::vector<Boundary> boundaries_;
  std::vector<std::vector<uint8_t>> keys_;
  std::vector<plan::Command> commands_;
  std::string refusal_;
};

}  // namespace cohort::test
