#include <CLI/CLI.hpp>
#include <string>

#include "tools/actor-node/card_command.hpp"
#include "tools/actor-node/data_command.hpp"
#include "tools/actor-node/doctor_command.hpp"
#include "tools/actor-node/keys_command.hpp"
#include "tools/actor-node/plan_command.hpp"
#include "tools/actor-node/plugin_command.hpp"
#include "tools/actor-node/rescale_command.hpp"
#include "tools/actor-node/run_command.hpp"
#include "tools/actor-node/score_command.hpp"

int main(int argc, char** argv) {
  CLI::App app{"Cohort: reinforcement-learning post-training of language models as actors"};
  app.set_version_flag("--version", "actor-node 0.1.0");
  app.require_subcommand(1);
  cohort::RunCommand command;
  CLI::App* run = app.add_subcommand("run", "run a configuration on this node");
  cohort::add_dialect_options(*run, command.input);
  run->add_flag("-q,--quiet", command.is_quiet, "print warnings, errors and the last line only");
  run->add_flag("--plain", command.is_plain, "one line per step, also on a terminal");
  run->add_option("--sandbox", command.sandbox,
                  "of every plugin and of code_sandbox: bubblewrap, or rlimits (limits without "
                  "isolation, for machines without user namespaces)")
      ->check(CLI::IsMember({"bubblewrap", "rlimits"}));
  run->add_option("--processes", command.processes,
                  "hold the cards in N processes of their own, split evenly (0: in this one)")
      ->check(CLI::Range(0, 4096));
  run->footer(
      "Last line of a run: `run: <folder>`. Ctrl-C once: finish the step, write a checkpoint, exit "
      "0; twice: leave at once.\n"
      "Exit codes: 0 done or stopped, 1 the run failed, 2 the configuration cannot run.");
  cohort::PlanCommand plan_options;
  CLI::App* plan = cohort::add_plan_command(app, plan_options);
  cohort::DoctorCommand doctor_options;
  CLI::App* doctor = cohort::add_doctor_command(app, doctor_options);
  cohort::DataCommand data_options;
  CLI::App* data = cohort::add_data_command(app, data_options);
  cohort::KeysCommand keys_options;
  CLI::App* keys = cohort::add_keys_command(app, keys_options);
  cohort::CardCommand card_options;
  CLI::App* card = cohort::add_card_command(app, card_options);
  cohort::RescaleCommand rescale_options;
  CLI::App* rescale = cohort::add_rescale_command(app, rescale_options);
  cohort::ScoreCommand score_options;
  CLI::App* score = cohort::add_score_command(app, score_options);
  cohort::PluginCommand plugin_options;
  CLI::App* plugin = cohort::add_plugin_command(app, plugin_options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  if (plan->parsed()) return cohort::plan_command(plan_options);
  if (doctor->parsed()) return cohort::doctor_command(doctor_options);
  if (data->parsed()) return cohort::data_command(data_options);
  if (keys->parsed()) return cohort::keys_command(keys_options);
  if (rescale->parsed()) return cohort::rescale_command(rescale_options);
  if (card->parsed()) return cohort::card_command(card_options);
  if (score->parsed()) return cohort::score_command(score_options);
  if (plugin->parsed()) return cohort::plugin_command(plugin_options);
  return cohort::run_command(command);
}
