#pragma once
/// The processes of `actor-node run --processes N`: cards split among them, the node made reachable
/// on loopback, the children started and watched. Owner: run_command, on main's thread; control()'s
/// functions may be called from any thread that lives as long as the run. The node is told of a
/// child that ends, and decides whether it is started again. Bound: N processes at a time, and a
/// number of attempts that the node bounds.
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/plan/place/placement.hpp"
#include "runtime/platform/child_processes.hpp"
#include "tools/actor-node/role_environment.hpp"
#include "tools/actor-node/run_processes.hpp"

namespace cohort {

/// Returns the cards that have roles, in `count` runs of neighbours that differ by one at most.
/// Errc::config if there are fewer cards than processes.
Expected<std::vector<std::vector<CardId>>> split_cards(const plan::PlacementPlan& plan,
                                                       size_t count);

class CardProcesses final : public RunProcesses {
 public:
  static Expected<std::unique_ptr<CardProcesses>> create(const config::RunConfig& config,
                                                         const plan::PlacementPlan& plan,
                                                         size_t count);
  ~CardProcesses() override;
  Expected<void> start(caf::actor_system& system, const actors::RunFolder& run,
                       const actors::NodeActor& node) override;
  actors::ProcessControl control() override;
  void finish(const std::string& error, int timeout_ms) override;

 private:
  struct Attempt {
    uint32_t slot = 0;
    uint32_t number = 0;
  };
  CardProcesses() = default;
  Expected<void> start(Attempt attempt);
  void kill(Attempt attempt);

  std::vector<Environment> environments_;  // by slot

  std::mutex mutex_;  // all below
  bool is_over_ = false;
  actors::NodeActor node_;
  std::string address_;            // of the node
  std::vector<Attempt> attempts_;  // by index of children_
  std::unique_ptr<platform::ChildProcesses> children_;
};

}  // namespace cohort
