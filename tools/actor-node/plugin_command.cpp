#include "tools/actor-node/plugin_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "runtime/base/clock.hpp"
#include "runtime/plugin/child/child_reward.hpp"
#include "runtime/plugin/child/gem_spec.hpp"
#include "runtime/plugin/child/plugin_environment.hpp"
#include "runtime/plugin/tool/open_tool.hpp"

namespace cohort {
namespace {

using tasks::RewardResult;

constexpr size_t k_max_lines = 40;  // of a table

/// A right, a wrong, an empty and a cut answer, with the columns that each signature looks for.
constexpr std::array<std::string_view, 4> k_sample_rows = {
    R"({"id": "right", "prompt": "What is 2 + 3?", "response": "2 + 3 = 5\n#### 5",
        "ground_truth": "5", "answer": "5", "solution": "5", "data_source": "openai/gsm8k",
        "extra_info": {"index": 0}})",
    R"({"id": "wrong", "prompt": "What is 7 - 4?", "response": "I say 4.\n#### 4",
        "ground_truth": "3", "answer": "3", "solution": "3", "data_source": "openai/gsm8k",
        "extra_info": {"index": 1}})",
    R"({"id": "empty", "prompt": "What is 1 + 1?", "response": "",
        "ground_truth": "2", "answer": "2", "solution": "2", "data_source": "openai/gsm8k",
        "extra_info": {"index": 2}})",
    R"({"id": "cut", "prompt": "What is 6 x 7?", "response": "6 \u00d7 7 \u2248 \ud83d\ude42",
        "ground_truth": "42", "answer": "42", "solution": "42", "data_source": "openai/gsm8k",
        "extra_info": {"index": 3}, "is_finished": false})"};

Expected<std::vector<InputRow>> rows_of(const PluginCommand& command) {
  if (!command.rows.empty()) return read_input_rows(command.rows);
  std::vector<InputRow> rows;
  for (std::string_view text : k_sample_rows) {
    COHORT_ASSIGN(InputRow row, read_input_row(text, "sample", rows.size() + 1));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string one_line(std::string text, size_t size) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() > size) text = text.substr(0, size - 3) + "...";
  return text;
}

std::string table_line(const InputRow& row, const RewardResult& result, double seconds) {
  std::string said;
  for (const auto& [name, value] : result.parts)
    said += fmt::format("{}{}={:g}", said.empty() ? "" : " ", name, value);
  if (!result.detail.empty()) said += (said.empty() ? "" : "; ") + result.detail;
  if (!result.error.empty()) said = "error: " + result.error;
  return fmt::format("  {:<24} {:>10} {:>9.0f}  {}\n", one_line(row.row.id, 24),
                     result.error.empty() ? fmt::format("{:.6g}", result.score) : "-",
                     seconds * 1e6, one_line(said, 120));
}

/// Compares the rows alone with the rows together: the second time they are asked for.
void find_differences(const std::vector<InputRow>& rows, const std::vector<RewardResult>& alone,
                      const std::vector<RewardResult>& together, PluginReport& report) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!alone[i].error.empty() || !together[i].error.empty() ||
        alone[i].score == together[i].score)
      continue;
    report.warnings.push_back(fmt::format(
        "{}: {:g} alone, then {:g} among all rows: not deterministic, or it compares rows; a run "
        "cannot be repeated bit for bit",
        rows[i].row.id, alone[i].score, together[i].score));
    return;
  }
}

void find_equal(const std::vector<RewardResult>& results, PluginReport& report) {
  std::vector<double> scores;
  for (const RewardResult& x : results)
    if (x.error.empty()) scores.push_back(x.score);
  if (scores.size() < 2 || std::count(scores.begin(), scores.end(), scores.front()) !=
                               static_cast<std::ptrdiff_t>(scores.size()))
    return;
  report.warnings.push_back(
      fmt::format("all {} scores are {:g}: a group with equal scores teaches nothing (give --rows "
                  "of your task)",
                  scores.size(), scores.front()));
}

std::string heading(const tasks::Reward& reward, const plugin::PluginSpec& spec) {
  const auto* child = dynamic_cast<const plugin::ChildReward*>(&reward);
  if (child == nullptr)
    return fmt::format("{}: {}\n", spec.plugin,
                       spec.plugin.ends_with(".so") ? "loaded into this process" : "built in");
  plugin::Loaded loaded = child->loaded();
  return fmt::format("{}: {} ({} signature{}), {} workers, {}\n", spec.plugin, loaded.name,
                     loaded.form, loaded.is_batch ? ", rows together" : "", spec.workers,
                     spec.mode == plugin::SandboxMode::bubblewrap ? "sandboxed" : "limits only");
}

Expected<PluginReport> check_reward(const PluginCommand& command, const plugin::PluginSpec& spec) {
  COHORT_ASSIGN(std::vector<InputRow> rows, rows_of(command));
  COHORT_ASSIGN(std::shared_ptr<tasks::Reward> reward, plugin::open_reward(spec));
  PluginReport report{.text = heading(*reward, spec), .errors = {}, .warnings = {}};
  report.text += fmt::format("  {:<24} {:>10} {:>9}\n", "row", "score", "us");
  std::vector<RewardResult> alone;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double begin = now_seconds();
    auto found = reward->score({&rows[i].row, 1});
    const double seconds = now_seconds() - begin;
    alone.push_back(std::move(found.front()));
    if (i < k_max_lines) report.text += table_line(rows[i], alone[i], seconds);
    const std::string& error = alone[i].error;
    if (!error.empty())
      report.errors.push_back(error.starts_with(rows[i].row.id) ? error
                                                                : rows[i].row.id + ": " + error);
  }
  if (rows.size() > k_max_lines)
    report.text += fmt::format("  ... {} more rows\n", rows.size() - k_max_lines);
  std::vector<tasks::RewardRow> all;
  for (const InputRow& row : rows) all.push_back(row.row);
  const auto together = reward->score(all);
  find_differences(rows, alone, together, report);
  find_equal(alone, report);
  return report;
}

/// Plays one episode; the text is all that a policy would have seen.
std::string play(tasks::Environment& world, const PluginCommand& command, PluginReport& report) {
  std::string text = fmt::format("  seed {}: {}\n", command.seed, world.reset(command.seed));
  text += "  " + one_line(world.instructions(), 400) + "\n";
  for (size_t turn = 0;; ++turn) {
    const std::string& answer = command.answers[turn % command.answers.size()];
    tasks::StepResult step = world.step(answer);
    text += fmt::format("  turn {}: {} -> reward {:g}{}{}\n{}\n", turn + 1, one_line(answer, 60),
                        step.reward, step.is_valid ? "" : ", invalid",
                        step.is_done ? ", done: " + step.stop_reason : "", step.observation);
    if (step.stop_reason.starts_with("plugin_error")) report.errors.push_back(step.stop_reason);
    if (step.is_done) break;
  }
  for (const auto& [name, value] : world.metrics())
    text += fmt::format("  {} = {:g}\n", name, value);
  return text;
}

Expected<PluginReport> check_environment(PluginCommand command, plugin::PluginSpec spec) {
  if (command.answers.empty()) command.answers = {"<answer>Up</answer>"};
  const std::string name = spec.plugin;
  const bool is_file = name.ends_with(".so") || name.find(".py") != std::string::npos;
  spec.is_dialogue = command.is_dialogue || !command.agent_runner.empty();
  if (!is_file)
    COHORT_TRY(plugin::fill_gem_spec({name, spec.config, command.tool_wrapper, command.modules,
                                      command.pythonpath, command.agent_runner},
                                     spec));
  COHORT_ASSIGN(auto source, plugin::open_environment(spec));
  PluginReport report;
  auto first = source->make(), second = source->make();
  const std::string text = play(*first, command, report);
  report.text = fmt::format("{}: environment\n{}", name, text);
  if (play(*second, command, report) != text)
    report.warnings.push_back(
        "the same seed and answers gave another episode: not deterministic; a run cannot be "
        "repeated bit for bit");
  return report;
}

/// Calls it twice: the second time a tool that remembers says something else.
Expected<PluginReport> check_tool(const PluginCommand& command, const plugin::PluginSpec& spec) {
  COHORT_ASSIGN(std::shared_ptr<tasks::Tool> tool, plugin::open_tool(spec));
  PluginReport report;
  report.text = fmt::format("{}: tool\n  {}\n", spec.plugin, tool->schema());
  const tasks::ToolResult first = tool->call(command.arguments);
  report.text += fmt::format("  {} -> {:.0f} us\n{}\n", one_line(command.arguments, 80),
                             first.seconds * 1e6, first.text);
  if (first.ending != tasks::ToolEnding::answered) report.errors.push_back(first.failure);
  if (tool->call(command.arguments).text != first.text)
    report.warnings.push_back(
        "the same arguments gave another text: not deterministic; a run cannot be repeated bit for "
        "bit");
  return report;
}

}  // namespace

Expected<PluginReport> check_plugin(const PluginCommand& command) {
  COHORT_ASSIGN(plugin::PluginSpec spec, spec_of(command.words));
  if (command.is_tool) return check_tool(command, spec);
  return command.is_environment ? check_environment(command, spec) : check_reward(command, spec);
}

CLI::App* add_plugin_command(CLI::App& app, PluginCommand& command) {
  CLI::App* plugin = app.add_subcommand("plugin", "try a reward, environment or tool plugin");
  plugin->require_subcommand(1);
  CLI::App* check = plugin->add_subcommand("check", "load one and try it on sample rows");
  add_reward_options(*check, command.words, "path");
  check->add_option("--rows", command.rows, "JSON lines with response, ground_truth, columns");
  check->add_flag(
      "--environment", command.is_environment,
      "it is an environment: play it; a class, a .so, or a world of GEM by its env_type");
  check->add_option("--tool-wrapper", command.tool_wrapper, "of a world of GEM, a JSON object");
  check->add_flag("--dialogue", command.is_dialogue,
                  "it is an agent (ProxyEnvManager), or an environment that writes each turn's "
                  "dialogue (AgentNativeStepEnvManager)");
  check->add_option("--modules", command.modules, "of a package: what registers it with GEM");
  check->add_option("--pythonpath", command.pythonpath, "folders in which the modules lie");
  check->add_option("--agent-runner", command.agent_runner, "agent_runner_cls: module.Class");
  check->add_flag("--tool", command.is_tool, "it is a tool: call it");
  check->add_option("--arguments", command.arguments, "of the call, a JSON object")
      ->capture_default_str();
  check->add_option("--seed", command.seed, "of the episode")->capture_default_str();
  check->add_option("--answer", command.answers, "what is answered, in turn; repeatable");
  check->footer("Exit codes: 0 it can be used, 1 it cannot or has errors, 2 wrong options.");
  return plugin;
}

int plugin_command(const PluginCommand& command) {
  auto spec = spec_of(command.words);
  if (!spec) {
    fmt::print(stderr, "error: {}\n", spec.error().detail);
    return 2;
  }
  auto report = check_plugin(command);
  if (!report) {
    fmt::print(stderr, "error: {}\n", report.error().detail);
    return 1;
  }
  std::fputs(report->text.c_str(), stdout);
  for (const std::string& x : report->warnings) fmt::print("warning: {}\n", x);
  for (const std::string& x : report->errors) fmt::print("error: {}\n", x);
  if (report->errors.empty() && report->warnings.empty()) fmt::print("ok\n");
  return report->errors.empty() ? 0 : 1;
}

}  // namespace cohort
