#pragma once
/// From the config's keys of a plugin to what runtime/plugin is asked for. Pure.
#include "runtime/config/run_config.hpp"
#include "runtime/plugin/hosted_spec.hpp"

namespace cohort::actors {

/// Fills all but the name.
inline void fill_plugin_spec(const config::PluginSection& from, plugin::PluginSpec& spec) {
  spec.config = from.args;
  spec.timeout_s = from.timeout_s;
  spec.workers = static_cast<uint32_t>(from.workers);
  spec.python = from.python;
  spec.mode = from.sandbox.mode == config::SandboxMode::rlimits ? plugin::SandboxMode::rlimits
                                                                : plugin::SandboxMode::bubblewrap;
  spec.memory_bytes = from.sandbox.memory_bytes;
  spec.readable = from.sandbox.readable;
  spec.has_network = from.sandbox.network;
}

}  // namespace cohort::actors
