#pragma once
/// Worlds of the Python package GEM (gem-llm), by ROLL's names of them: an environment plugin whose
/// code ships with Cohort (runtime/plugin/python/worker_gem.py), while the package itself is what
/// the interpreter of PluginSpec::python has. docs/plugins.md says what a user gives.
#include <string>
#include <string_view>

#include "runtime/plugin/hosted_spec.hpp"

namespace cohort::plugin {

/// PluginSpec::plugin of a world of GEM.
inline constexpr std::string_view k_gem = "gem";

struct GemWorld {
  std::string env_id;               // "game:GuessTheNumber-v0", "rg:letter_counting", "roll_math"
  std::string env_config = "{}";    // JSON object: keyword arguments of gem.make()
  std::string tool_wrapper = "{}";  // JSON object: wrapper_args, tool_configs
};

/// Fills what the world decides: plugin and config; a dataset_name that is a file or folder of this
/// host becomes readable; a step may take longer by what its programs may run (GEM runs one a
/// second time with imports before it). Returns Errc::config for a text that is no JSON object.
Expected<void> fill_gem_spec(const GemWorld& world, PluginSpec& spec);

}  // namespace cohort::plugin
