#pragma once
/// The processes of `actor-node run --processes N`: cards split among them, the node made reachable
/// on loopback, the children started and watched. Owner: run_command, on main's thread. A child
/// that ends while the run goes on ends the run, named with its cards. Bound: N processes.
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/plan/placement.hpp"
#include "runtime/platform/child_processes.hpp"
#include "tools/actor-node/run_processes.hpp"

namespace cohort {

/// Returns the cards that have roles, in `count` runs of neighbours that differ by one at most.
/// Errc::config if there are fewer cards than processes.
Expected<std::vector<std::vector<CardId>>> split_cards(const plan::PlacementPlan& plan,
                                                       size_t count);

class CardProcesses final : public RunProcesses {
 public:
  static Expected<std::unique_ptr<CardProcesses>> create(const plan::PlacementPlan& plan,
                                                         size_t count);
  ~CardProcesses() override;
  Expected<void> start(caf::actor_system& system, const std::string& run_id,
                       const actors::NodeActor& node) override;
  void finish(const std::string& error, int timeout_ms) override;

 private:
  CardProcesses() = default;
  std::vector<std::string> names_;  // "process 1 (cards [2, 3]: actor_train, actor_infer)"
  std::atomic<bool> is_over_ = false;
  std::unique_ptr<platform::ChildProcesses> children_;
};

}  // namespace cohort
