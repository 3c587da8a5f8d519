#pragma once
/// `actor-node diagnose RUN`: why a run stands still, in one sentence (docs/diagnose.md).
#include <CLI/CLI.hpp>
#include <string>

namespace cohort {

struct DiagnoseCommand {
  std::string run;
  double after_s = 10, window_s = 0.5;
  bool is_json = false, with_all = false;
};

/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_diagnose_command(CLI::App& app, DiagnoseCommand& command);

/// Returns the exit code: 0 nothing stands still, 1 the sentence names what does, 2 there is no
/// such run.
int diagnose_command(const DiagnoseCommand& command);

}  // namespace cohort
