#pragma once
/// `actor-node rescale --from K --to K'`: what batch and learning rate become on other cards, with
/// the overrides to paste. From numbers (--batch, --lr) or from a config.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "tools/actor-node/doctor_config.hpp"

namespace cohort {

struct RescaleCommand {
  ConfigWords config = {};    // none given: the numbers below
  uint32_t from = 0, to = 0;  // cards of one node
  uint32_t nodes = 1;
  uint64_t batch = 0;
  double learning_rate = 0;
};

/// Declares the subcommand and its options, which write into `command`.
CLI::App* add_rescale_command(CLI::App& app, RescaleCommand& command);

/// Returns the lines that rescale_command() prints. Errc::config names the nearest values that
/// work.
Expected<std::string> rescale_text(const RescaleCommand& command);

/// Returns the exit code: 0 done, 2 the numbers do not fit or the config is wrong.
int rescale_command(const RescaleCommand& command);

}  // namespace cohort
