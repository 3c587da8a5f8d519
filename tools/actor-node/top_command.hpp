#pragma once
/// `actor-node top RUN`: the dashboard of a run or a cluster, in a terminal (docs/dashboard.md).
#include <CLI/CLI.hpp>
#include <string>

#include "tools/actor-node/cluster_options.hpp"

namespace cohort {

struct TopCommand {
  std::string where;  // a run's folder, or the address of a dashboard
  double interval_s = 1;
  bool is_once = false, is_json = false;
  ClusterAccess access;
};

/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_top_command(CLI::App& app, TopCommand& command);

/// Draws until q, Ctrl-C or SIGTERM; without a terminal, or with --once, one picture. Returns the
/// exit code: 0, 1 the dashboard does not answer, 2 there is no such run.
int top_command(const TopCommand& command);

}  // namespace cohort
