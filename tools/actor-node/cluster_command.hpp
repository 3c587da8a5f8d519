#pragma once
/// `actor-node head | join | leave | status | stop`: a cluster by hand; and what `actor-node run`
/// does on a host whose RANK is not 0.
#include <CLI/CLI.hpp>

#include "tools/actor-node/cluster_options.hpp"

namespace cohort {

struct ClusterCommand {
  CLI::App *head = nullptr, *join = nullptr, *leave = nullptr, *status = nullptr, *stop = nullptr;
  ClusterAccess access;
  std::string address;       // of the head; head: where to listen
  int64_t rank = -1;         // join, leave
  uint32_t cards = 0;        // head, join: of this node; 0: as many as a run asks for
  bool has_no_node = false;  // head: no cards here
  double wait_s = 600;       // join: for the head
  double drain_s = 60;       // leave: for what is played there
  bool is_json = false;      // status
  std::string dashboard;     // head: [HOST:]PORT
};

void add_cluster_commands(CLI::App& app, ClusterCommand& command);

/// Returns the exit code: 0, 1 (the cluster could not be reached, or refused), 2 (bad options).
int cluster_command(const ClusterCommand& command);

/// RANK > 0: a node of the cluster until the run of RANK 0 ends; returns 0 or 1 with its result.
int serve_rank(const RankStart& start, const ClusterAccess& access);

}  // namespace cohort
