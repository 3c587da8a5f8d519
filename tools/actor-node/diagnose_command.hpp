#pragma once
/// `actor-node diagnose RUN`: why a run stands still, in one sentence (docs/diagnose.md).
#include <CLI/CLI.hpp>
#include <string>

#include "tools/actor-node/cluster_options.hpp"

namespace cohort {

struct DiagnoseCommand {
  std::string run;     // its folder, or the address of a cluster's head
  std::string run_id;  // on a cluster; empty: the one that is there
  double after_s = 10, window_s = 0.5;
  bool is_json = false, with_all = false;
  ClusterAccess access;
};

/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_diagnose_command(CLI::App& app, DiagnoseCommand& command);

/// Returns the exit code: 0 nothing stands still, 1 the sentence names what does, 2 there is no
/// such run.
int diagnose_command(const DiagnoseCommand& command);

}  // namespace cohort
