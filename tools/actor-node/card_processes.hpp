#pragma once
/// The processes of `actor-node run --processes N`: cards split among them, the node made reachable
/// on loopback, the children started and watched. Owner: run_command, on main's thread. A child
/// that ends while the run goes on ends the run, named with its cards. Bound: N processes.
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/roles.hpp"
#include "runtime/compute/collectives.hpp"
#include "runtime/plan/placement.hpp"
#include "runtime/platform/child_processes.hpp"

namespace cohort {

/// Returns the cards that have roles, in `count` runs of neighbours that differ by one at most.
/// Errc::config if there are fewer cards than processes.
Expected<std::vector<std::vector<CardId>>> split_cards(const plan::PlacementPlan& plan,
                                                       size_t count);

class CardProcesses {
 public:
  static Expected<std::unique_ptr<CardProcesses>> create(const plan::PlacementPlan& plan,
                                                         size_t count);
  ~CardProcesses();
  const std::vector<std::vector<CardId>>& cards() const { return cards_; }
  const std::string& socket_folder() const { return socket_folder_; }
  /// Publishes the node on loopback and starts the processes.
  Expected<void> start(caf::actor_system& system, const actors::NodeActor& node);
  /// The run is over: ends are no failures any more. Kills what has not ended in `timeout_ms`.
  void finish(int timeout_ms);

 private:
  CardProcesses() = default;
  std::vector<std::vector<CardId>> cards_;  // by process
  std::vector<std::string> names_;          // "process 1 (cards [2, 3]: actor_train, actor_infer)"
  std::string socket_folder_;
  std::atomic<bool> is_over_ = false;
  std::unique_ptr<platform::ChildProcesses> children_;
};

}  // namespace cohort
