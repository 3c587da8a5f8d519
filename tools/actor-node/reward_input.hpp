#pragma once
/// What `score` and `plugin check` share: the options that say how a reward is opened, and rows
/// read from JSON lines.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/plugin/open_reward.hpp"

namespace cohort {

/// Words of the command line; the fields that a plugin::PluginSpec has carry its defaults.
struct RewardWords {
  plugin::PluginSpec spec;
  std::string sandbox = "bubblewrap";
  uint64_t memory_mib = 1024;
  bool is_in_process = false;
};

/// Declares the positional `name` (what to open) and the options that every reward takes.
void add_reward_options(CLI::App& command, RewardWords& words, const std::string& name);
/// Returns the spec that the words name.
Expected<plugin::PluginSpec> spec_of(const RewardWords& words);

/// One line of a file of rows. Known columns: id, response (verl's dumps: output), prompt (input; a
/// list of messages counts as messages), messages, ground_truth (gts, reward_model.ground_truth),
/// data_source (tag), response_tokens, is_finished; all others are columns of the reward's.
struct InputRow {
  uint64_t line = 0;
  tasks::RewardRow row;
};
/// Returns Errc::config naming file:line for a line that is no JSON object or has no response.
Expected<InputRow> read_input_row(std::string_view text, const std::string& file, uint64_t line);
Expected<std::vector<InputRow>> read_input_rows(const std::string& path);

}  // namespace cohort
