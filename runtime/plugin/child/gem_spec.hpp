#pragma once
/// Worlds of the Python package GEM (gem-llm), worlds that another package registers with it (as
/// ROLL's does), and ROLL's agent runners: environment plugins whose code ships with Cohort
/// (runtime/plugin/python/worker_gem.py, worker_package.py), while the packages themselves are what
/// the interpreter of PluginSpec::python has. docs/plugins.md says what a user gives.
#include <string>
#include <string_view>
#include <vector>

#include "runtime/plugin/hosted_spec.hpp"

namespace cohort::plugin {

/// PluginSpec::plugin of what ships with Cohort: a world of GEM, one of another package, an agent.
inline constexpr std::string_view k_gem = "gem", k_package = "package",
                                  k_agent_runner = "agent_runner";

constexpr bool is_shipped(std::string_view plugin) {
  return plugin == k_gem || plugin == k_package || plugin == k_agent_runner;
}

struct GemWorld {
  std::string env_id;               // "game:GuessTheNumber-v0", "rg:letter_counting", "roll_math"
  std::string env_config = "{}";    // JSON object: keyword arguments of gem.make()
  std::string tool_wrapper = "{}";  // JSON object: wrapper_args, tool_configs
  std::vector<std::string> modules = {};     // that register env_id when imported; none: GEM has it
  std::vector<std::string> pythonpath = {};  // folders in which the interpreter looks first
  std::string agent_runner = {};             // ROLL's agent_runner_cls, module.Class; empty: none
  std::string entry = "{}";  // JSON object: what an agent runner reads of its custom_envs entry
};

/// Fills what the world decides: plugin and config; a dataset_name that is a file or folder of this
/// host becomes readable, and so do the folders of pythonpath; a world that searches and runs no
/// programs has a network; a step may take longer by what its programs may run (GEM runs one a
/// second time with imports before it). Returns Errc::config for a text that is no JSON object, and
/// for a folder that is not there.
Expected<void> fill_gem_spec(const GemWorld& world, PluginSpec& spec);

}  // namespace cohort::plugin
