#include <CLI/CLI.hpp>
#include <string>

#include "tools/actor-node/run_command.hpp"

int main(int argc, char** argv) {
  CLI::App app{"Cohort: reinforcement-learning post-training of language models as actors"};
  app.set_version_flag("--version", "actor-node 0.1.0");
  app.require_subcommand(1);
  cohort::RunCommand command;
  CLI::App* run = app.add_subcommand("run", "run a configuration on this node");
  run->add_option("config", command.config_path, "YAML file (ROLL dialect)")->required();
  run->add_option("overrides", command.overrides,
                  "key=value changes, e.g. seed=3 output_dir=/tmp/runs");
  run->add_flag("-q,--quiet", command.is_quiet, "print warnings, errors and the last line only");
  run->add_flag("--plain", command.is_plain, "one line per step, also on a terminal");
  run->footer(
      "Last line of a run: `run: <folder>`. Ctrl-C once: finish the step, write a checkpoint, exit "
      "0; twice: leave at once.\n"
      "Exit codes: 0 done or stopped, 1 the run failed, 2 the configuration cannot run.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  return cohort::run_command(command);
}
