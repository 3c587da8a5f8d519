#pragma once
/// `actor-node serve RUN [OTHER …]`: the dashboard's pages of a run from its folder, whether it is
/// over or another process writes it. Reads, never writes.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "tools/actor-node/cluster_options.hpp"

namespace cohort {

struct ServeCommand {
  std::vector<std::string> runs;  // the first is shown, the others may be compared with it
  std::string dashboard = "0";    // [HOST:]PORT
  ClusterAccess access;
};

/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_serve_command(CLI::App& app, ServeCommand& command);

/// Serves until it is told to stop. Returns the exit code: 0, 1 (the port is taken), 2 (no such
/// run, bad options).
int serve_command(const ServeCommand& command);

}  // namespace cohort
