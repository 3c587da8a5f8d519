#include "tools/actor-node/plan_command.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/job/job_json.hpp"
#include "tools/actor-node/plan_bytes.hpp"
#include "tools/actor-node/plan_explain.hpp"
#include "tools/actor-node/plan_text.hpp"

namespace cohort {
namespace {

PlanOutput fail(const Error& error) {
  return {2, "", "error: " + with_short_lists(error.detail) + "\n"};
}

PlanOutput explain(const PlanCommand& command, const PageStyle& style) {
  const PlanInput& input = command.input;
  config::Dialect dialect = input.dialect == "verl" ? config::Dialect::verl : config::Dialect::roll;
  bool has_config =
      !input.config_path.empty() || !input.config_name.empty() || !input.overrides.empty();
  config::RunConfig config;
  if (has_config) {
    auto loaded = load_config(input, false);
    if (!loaded) return fail(loaded.error());
    config = std::move(*loaded);
  }
  auto text = explain_key(command.explained_key, dialect, has_config ? &config : nullptr, style);
  if (!text) return fail(text.error());
  return {0, *text, ""};
}

std::string title_of(const PlanInput& input) {
  bool is_file = input.dialect != "verl" || input.config_path.find('=') == std::string::npos;
  if (!input.config_path.empty() && is_file) return input.config_path;
  return input.dialect == "verl" ? "verl's keys from the command line" : "";
}

}  // namespace

void add_dialect_options(CLI::App& command, PlanInput& input) {
  command.add_option("config", input.config_path,
                     "YAML file; --dialect verl: may be left out, or be the first override");
  command.add_option("overrides", input.overrides, "a.b=c, +a.b=c, ~a.b; values are YAML");
  command.add_option("--dialect", input.dialect, "whose keys: roll or verl")
      ->check(CLI::IsMember({"roll", "verl"}))
      ->capture_default_str();
  command.add_option("--config-path", input.config_folder,
                     "verl: folder of the config, as Hydra's");
  command.add_option("--config-name", input.config_name, "verl: its name, as Hydra's");
}

CLI::App* add_plan_command(CLI::App& app, PlanCommand& command) {
  CLI::App* plan = app.add_subcommand(
      "plan", "say what a config becomes: cards, batches, bytes, traffic; needs no card");
  add_dialect_options(*plan, command.input);
  plan->add_option("--card", command.input.card,
                   "card type: 910A, A2, A3, H100, H200, A100-40, A100-80, cpu");
  plan->add_flag("--json", command.is_json, "for programs; docs/plan.md lists the names");
  plan->add_option("--explain", command.explained_key,
                   "what a key does, its default and its value; works without a config");
  plan->footer(
      "Exit codes: 0 fits its cards, 1 does not fit, 2 the configuration or an option is wrong.\n"
      "What the page says, and how bytes are counted: docs/plan.md.");
  return plan;
}

PlanOutput plan_output(const PlanCommand& command, const PageStyle& style) {
  if (!command.explained_key.empty()) return explain(command, style);
  auto job = plan_input(command.input);
  if (!job) return fail(job.error());
  std::string text = command.is_json
                         ? job::job_json(job->config, job->job, job->plan).dump(2) + "\n"
                         : plan_text(*job, title_of(command.input), style);
  return {job->plan.fits ? 0 : 1, std::move(text), ""};
}

int plan_command(const PlanCommand& command) {
  PlanOutput output = plan_output(command, terminal_style());
  std::fputs(output.out.c_str(), stdout);
  std::fputs(output.err.c_str(), stderr);
  return output.exit_code;
}

}  // namespace cohort
