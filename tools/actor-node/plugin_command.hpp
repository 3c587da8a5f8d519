#pragma once
/// `actor-node plugin check PATH[:name]`: loads a plugin as a run would, tries it on sample rows
/// (or plays two episodes of an environment), prints scores, times and what breaks the contract.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/actor-node/reward_input.hpp"

namespace cohort {

struct PluginCommand {
  RewardWords words;
  std::string rows;  // .jsonl; empty: a built-in handful
  bool is_environment = false;
  bool is_tool = false;
  std::string arguments = "{}";     // of the call
  std::string tool_wrapper = "{}";  // around a world of GEM
  bool is_dialogue = false;         // the environment, or an agent, writes each turn's dialogue
  std::vector<std::string> modules, pythonpath;  // of a world that a package registers with GEM
  std::string agent_runner;                      // ROLL's class that acts; empty: none
  uint64_t seed = 1;                             // of the episodes
  std::vector<std::string> answers;              // played in turn; empty: "<answer>Up</answer>"
};

/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_plugin_command(CLI::App& app, PluginCommand& command);

/// What a check found.
struct PluginReport {
  std::string text;                   // the table and the findings
  std::vector<std::string> errors;    // rows without a score, an environment that failed
  std::vector<std::string> warnings;  // all scores equal, another score the second time
};
/// Returns an error if the plugin cannot be loaded.
Expected<PluginReport> check_plugin(const PluginCommand& command);

/// Returns the exit code: 0 the plugin can be used, 1 it cannot be loaded or has errors, 2 the
/// options are wrong.
int plugin_command(const PluginCommand& command);

}  // namespace cohort
