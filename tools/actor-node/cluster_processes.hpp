#pragma once
/// The processes of a run on the nodes of a cluster: card c is on node c / num_gpus_per_node, one
/// process per node on platform cpu, one per card elsewhere. The cluster is one that stands
/// (`--cluster HOST:PORT`), or the run's own (RANK, WORLD_SIZE: this process is head, node 0 and
/// run in one). With --nodes the run begins without nodes that have rollouts alone: their processes
/// start when they join. Owner: run_command, on main's thread. Every wait has an end, and says who
/// is missing.
#include <functional>
#include <future>
#include <optional>
#include <set>

#include "actors/cluster/cluster_agent.hpp"
#include "actors/cluster/cluster_head.hpp"
#include "runtime/config/run_config.hpp"
#include "runtime/plan/membership/start_gate.hpp"
#include "runtime/plan/place/placement.hpp"
#include "tools/actor-node/cluster_options.hpp"
#include "tools/actor-node/run_processes.hpp"

namespace cohort {

struct ClusterRun {
  ClusterAccess access;
  std::string head;                // of a cluster that stands
  std::optional<RankStart> start;  // or of this run's own
  std::string nodes;               // MIN or MIN:MAX; empty: all must be there
  double wait_s = 600;             // for the nodes that the run needs
  double wait_more_s = 30;         // for the others
  size_t processes_per_node = 0;   // 0: as the platform needs
  /// Called once the head is there, before its nodes are waited for.
  std::function<void(const actors::ClusterHeadActor&)> on_head = nullptr;

  bool is_wanted() const { return !head.empty() || start; }
};

class ClusterProcesses final : public RunProcesses {
 public:
  /// Returns once enough nodes have joined. Errc::timeout names the missing ones.
  static Expected<std::unique_ptr<ClusterProcesses>> create(caf::actor_system& system,
                                                            const ClusterRun& cluster,
                                                            const config::RunConfig& config,
                                                            const actors::Preflight& plan);
  ~ClusterProcesses() override;
  Expected<void> start(caf::actor_system& system, const actors::RunFolder& run,
                       const actors::NodeActor& node) override;
  actors::ProcessControl control() override;
  void finish(const std::string& error, int timeout_ms) override;

 private:
  explicit ClusterProcesses(caf::actor_system& system) : system_(system) {}
  Expected<void> open_own(const ClusterRun& cluster);
  Expected<void> open_standing(const ClusterRun& cluster);
  Expected<void> await_nodes(plan::NodesWanted wanted);
  void split(const plan::PlacementPlan& plan, const config::RunConfig& config,
             size_t processes_per_node);

  caf::actor_system& system_;
  actors::ClusterHeadActor head_;
  bool is_own_ = false;
  actors::ClusterAgentActor agent_;  // of a cluster of its own
  std::string host_;                 // where the run's node is reached
  std::vector<control::ProcessOrder> orders_;
  std::set<uint32_t> missing_;  // nodes, when the run began
  std::string run_id_;          // once its processes are started
  std::string address_;         // of the run's node
};

}  // namespace cohort
