#pragma once
/// `actor-node plan CONFIG [key=value …]`: what a config becomes, without a card, in under a
/// second.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "tools/actor-node/plan_input.hpp"
#include "tools/actor-node/plan_page.hpp"

namespace cohort {

struct PlanCommand {
  PlanInput input;
  bool is_json = false;
  std::string explained_key;  // empty: plan
};

/// Declares --dialect and, for verl, Hydra's --config-path and --config-name; `run` has them too.
void add_dialect_options(CLI::App& command, PlanInput& input);
/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_plan_command(CLI::App& app, PlanCommand& command);

struct PlanOutput {
  int exit_code = 0;  // 0 fits, 1 does not fit, 2 the config or an option is wrong
  std::string out, err;
};
PlanOutput plan_output(const PlanCommand& command, const PageStyle& style);

/// Prints plan_output() in the terminal's style; returns its exit code.
int plan_command(const PlanCommand& command);

}  // namespace cohort
