#pragma once
/// Cluster agent: one per node. Joins the head, starts the processes that runs want here, watches
/// them, and joins again when the head was away. Owner: main of `actor-node join`, or of a run that
/// is a node too. Thread: its own (detached: connecting blocks), and one more that reads waits once
/// somebody has asked for them. Bound: the processes of the runs that are under way. When it ends
/// its children are killed. Messages: ClusterAgentActor in cluster_roles.hpp.
#include <functional>
#include <string>
#include <vector>

#include "actors/cluster/cluster_roles.hpp"
#include "runtime/control/network.hpp"

namespace cohort::actors {

struct AgentEnd {
  bool is_ok = false;
  std::string error;  // one line
};

struct ClusterAgentOptions {
  control::Address head;
  ClusterHeadActor local_head;  // instead, in the head's own process
  control::NodeHello hello;
  std::vector<std::string> command;        // the program of a process
  std::vector<std::string> process_words;  // what each process is told besides its own
  double join_timeout_s = 600;             // for the first time
  double rejoin_timeout_s = 600;           // when the head went away
  bool ends_with_run = false;              // (end) ends the agent, with the run's result
  std::function<void(const std::string& line)> on_line;
  std::function<void(AgentEnd)> on_end;  // once
};

ClusterAgentActor spawn_cluster_agent(caf::actor_system& system, ClusterAgentOptions options);

}  // namespace cohort::actors
