#include <CLI/CLI.hpp>
#include <string>

#include "runtime/base/main_frame.hpp"
#include "tools/actor-node/become_runner.hpp"
#include "tools/actor-node/cluster_command.hpp"
#include "tools/actor-node/data_command.hpp"
#include "tools/actor-node/diagnose_command.hpp"
#include "tools/actor-node/doctor_command.hpp"
#include "tools/actor-node/keys_command.hpp"
#include "tools/actor-node/plan_command.hpp"
#include "tools/actor-node/plugin_command.hpp"
#include "tools/actor-node/rescale_command.hpp"
#include "tools/actor-node/score_command.hpp"
#include "tools/actor-node/serve_command.hpp"
#include "tools/actor-node/tokenize_command.hpp"
#include "tools/actor-node/top_command.hpp"

namespace {

/// Its options are those of actor-node-run, which this process becomes.
CLI::App* add_runner_command(CLI::App& app, const char* name, const char* help) {
  CLI::App* command = app.add_subcommand(name, help);
  command->prefix_command()->set_help_flag();
  return command;
}

int run(int argc, char** argv) {
  CLI::App app{"Cohort: reinforcement-learning post-training of language models as actors"};
  app.set_version_flag("--version", std::string("actor-node ") + cohort::k_version);
  app.require_subcommand(1);
  CLI::App* run_options =
      add_runner_command(app, "run", "run a configuration, on this host or on a cluster");
  CLI::App* logprobs =
      add_runner_command(app, "logprobs",
                         "log-probabilities, entropies and greedy tokens that a model folder "
                         "computes");
  CLI::App* exported =
      add_runner_command(app, "export", "write a checkpoint as a Hugging Face folder");
  CLI::App* evaluated = add_runner_command(
      app, "evaluate", "outputs of advantages, losses and other formulas for given inputs");
  CLI::App* chat = add_runner_command(app, "chat", "talk with the model of a Hugging Face folder");
  cohort::ClusterCommand cluster_options;
  cohort::add_cluster_commands(app, cluster_options);
  cohort::PlanCommand plan_options;
  CLI::App* plan = cohort::add_plan_command(app, plan_options);
  cohort::DiagnoseCommand diagnose_options;
  CLI::App* diagnose = cohort::add_diagnose_command(app, diagnose_options);
  cohort::DoctorCommand doctor_options;
  CLI::App* doctor = cohort::add_doctor_command(app, doctor_options);
  cohort::DataCommand data_options;
  CLI::App* data = cohort::add_data_command(app, data_options);
  cohort::KeysCommand keys_options;
  CLI::App* keys = cohort::add_keys_command(app, keys_options);
  cohort::RescaleCommand rescale_options;
  CLI::App* rescale = cohort::add_rescale_command(app, rescale_options);
  cohort::ScoreCommand score_options;
  CLI::App* score = cohort::add_score_command(app, score_options);
  cohort::ServeCommand serve_options;
  CLI::App* serve = cohort::add_serve_command(app, serve_options);
  cohort::PluginCommand plugin_options;
  CLI::App* plugin = cohort::add_plugin_command(app, plugin_options);
  cohort::TokenizeCommand tokenize_options;
  CLI::App* tokenize = cohort::add_tokenize_command(app, tokenize_options);
  cohort::TopCommand top_options;
  CLI::App* top = cohort::add_top_command(app, top_options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  if (plan->parsed()) return cohort::plan_command(plan_options);
  if (diagnose->parsed()) return cohort::diagnose_command(diagnose_options);
  if (doctor->parsed()) return cohort::doctor_command(doctor_options);
  if (data->parsed()) return cohort::data_command(data_options);
  if (keys->parsed()) return cohort::keys_command(keys_options);
  if (rescale->parsed()) return cohort::rescale_command(rescale_options);
  if (score->parsed()) return cohort::score_command(score_options);
  if (serve->parsed()) return cohort::serve_command(serve_options);
  if (plugin->parsed()) return cohort::plugin_command(plugin_options);
  if (tokenize->parsed()) return cohort::tokenize_command(tokenize_options);
  if (top->parsed()) return cohort::top_command(top_options);
  if (logprobs->parsed() || exported->parsed() || evaluated->parsed() || chat->parsed())
    return cohort::exec_runner(argv);
  if (run_options->parsed()) return cohort::become_runner(argv);
  return cohort::cluster_command(cluster_options);
}

}  // namespace

int main(int argc, char** argv) {
  return cohort::run_main("error: ", [&] { return run(argc, argv); });
}
