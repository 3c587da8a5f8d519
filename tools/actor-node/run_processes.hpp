#pragma once
/// The processes that hold a run's cards, when the run's own does not: on this host
/// (card_processes.hpp) or on the nodes of a cluster (cluster_processes.hpp). Owner: run_command,
/// on main's thread.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/node/node_actor.hpp"
#include "actors/node/role_spawner.hpp"
#include "actors/roles/role_handles.hpp"
#include "runtime/control/credentials.hpp"

namespace cohort {

class RunProcesses {
 public:
  virtual ~RunProcesses() = default;
  /// Cards by slot.
  const std::vector<std::vector<CardId>>& cards() const { return cards_; }
  const actors::Wires& wires() const { return wires_; }
  /// Slots whose nodes have not joined: the run begins without them.
  const std::set<uint32_t>& absent() const { return absent_; }
  /// Makes the run's node reachable and starts the processes, which join it.
  virtual Expected<void> start(caf::actor_system& system, const actors::RunFolder& run,
                               const actors::NodeActor& node) = 0;
  /// Returns how one of them is ended and started again; unset functions: a loss ends the run.
  virtual actors::ProcessControl control() { return {}; }
  /// The run is over: ends are no failures any more. Kills what has not ended in `timeout_ms`.
  virtual void finish(const std::string& error, int timeout_ms) = 0;

 protected:
  std::vector<std::vector<CardId>> cards_;
  actors::Wires wires_;
  std::set<uint32_t> absent_;
};

/// Returns "cards [2, 3]: actor_train, actor_infer".
std::string text_of(const plan::PlacementPlan& plan, const std::vector<CardId>& cards);

transport::CurveKeys curve_keys(const control::Credentials& credentials);

}  // namespace cohort
