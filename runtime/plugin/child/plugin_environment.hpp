#pragma once
/// Environments from plugins: path.py:Class in sandboxed Python workers, a world of GEM there
/// (gem_spec.hpp), or a shared object (include/cohort/environment.h) in sandboxed hosts. An
/// EnvironmentSource is thread-safe; an environment that it made belongs to one thread and keeps
/// its source alive. Each environment is pinned to one worker; calls of environments of one worker
/// take turns. reset() and step() block until the plugin has answered, at most timeout_s: an actor
/// that plays them is detached.
/// PLUGIN-1: a call ends within its deadline, whatever the plugin does. PLUGIN-2: when a worker
/// dies, the episodes it held end with is_done and stop_reason "plugin_error: <why>"; its slot is
/// back with a new worker, on which later episodes run.
#include <memory>

#include "runtime/plugin/hosted_spec.hpp"
#include "runtime/tasks/text_environment.hpp"

namespace cohort::plugin {

class EnvironmentSource {
 public:
  EnvironmentSource() = default;
  EnvironmentSource(const EnvironmentSource&) = delete;
  EnvironmentSource& operator=(const EnvironmentSource&) = delete;
  virtual ~EnvironmentSource() = default;

  /// Returns a new world, not yet reset.
  virtual std::unique_ptr<tasks::Environment> make() = 0;
  /// Takes the newer version of the file for episodes that start from now on. Returns whether it
  /// changed; on an error the old version stays.
  virtual Expected<bool> reload() = 0;
  /// Ends every call under way and every later one with an error. Any thread.
  virtual void stop() = 0;
};

/// Starts the workers and has each load the plugin. Returns Errc::config naming the fault of the
/// spec or the plugin, Errc::not_found for the file, Errc::unsupported for another ABI version or a
/// machine without sandbox.
Expected<std::shared_ptr<EnvironmentSource>> open_environment(const PluginSpec& spec);

}  // namespace cohort::plugin
