#pragma once
/// Cluster head: knows the nodes of a cluster and passes on what runs want of them. It holds no
/// run: a run goes on while its head is away, and nodes join again when it is back. Owner: main of
/// `actor-node head`, or of the run that starts a cluster of its own. Thread: CAF's scheduler.
/// Bound: plan::k_nodes_max nodes; of a run its processes, until it ends, those included that wait
/// for their nodes to join. Every request to an agent has a time limit. Messages: ClusterHeadActor
/// in cluster_roles.hpp.
#include <functional>
#include <string>

#include "actors/cluster/cluster_roles.hpp"

namespace cohort::actors {

struct ClusterHeadOptions {
  std::string version;                                   // of this actor-node
  std::function<void(const std::string& line)> on_line;  // for people: who joined, who was lost
  std::function<void()> on_stop;                         // once
  int agent_timeout_ms = 10000;
};

ClusterHeadActor spawn_cluster_head(caf::actor_system& system, ClusterHeadOptions options);

}  // namespace cohort::actors
