#pragma once
/// `actor-node evaluate CASES.json`: outputs of the algorithms' functions for given inputs, the
/// very functions that a run calls: to hold them against another system or an equation.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cohort {

struct EvaluateCommand {
  std::vector<std::string> files;
  std::string dtype = "f64";
};

/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_evaluate_command(CLI::App& app, EvaluateCommand& command);

/// A file holds a list of cases {"id", "kind", "params", "inputs"}, or {"cases": […]}. Prints a
/// line {"id", "outputs"} for each, in order; {"id", "error"} for one that cannot be computed.
/// Values that are not finite are written NaN, Infinity, -Infinity, as Python reads them. Returns
/// the exit code: 0, 1 if some cases have an error, 2 if a file cannot be read.
int evaluate_command(const EvaluateCommand& command);

}  // namespace cohort
