#pragma once
/// `actor-node run CONFIG [key=value …]`: one run, from the file to the last line, on this host or
/// on a cluster.
#include "tools/actor-node/cluster_processes.hpp"
#include "tools/actor-node/plan_input.hpp"

namespace cohort {

struct RunCommand {
  PlanInput input;       // the config, as `actor-node plan` takes it
  size_t processes = 0;  // that hold the cards; 0: this one does. On a cluster: of each node
  ClusterRun cluster;
  bool is_quiet = false;
  bool is_plain = false;        // lines even on a terminal
  bool is_record_only = false;  // rollouts are recorded, nothing is trained
  std::string from_stream;      // a run whose trajectories train; empty: rollouts play
  std::string sandbox;  // of plugins and code: bubblewrap or rlimits; empty: as the config says
  bool allows_stop = false;  // by the dashboard, to those who show the token that is printed
  std::string dashboard;     // [HOST:]PORT; empty: as DASHBOARD_PORT says, if it does
};

/// Returns the exit code: 0 done or stopped by Ctrl-C, 1 the run failed, 2 the configuration is
/// wrong. Prints one line that names the first cause of a failure.
int run_command(const RunCommand& command);

}  // namespace cohort
