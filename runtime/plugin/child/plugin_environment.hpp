#pragma once
/// Environments from plugins: path.py:Class in sandboxed Python workers, or a shared object
/// (include/cohort/environment.h) in sandboxed hosts. An EnvironmentSource is thread-safe; an
/// environment that it made belongs to one thread and keeps its source alive. Each environment is
/// pinned to one worker; calls of environments of one worker take turns. reset() and step() block
/// until the plugin has answered, at most timeout_s: an actor that plays them is detached.
/// PLUGIN-1: a call ends within its deadline, whatever the plugin does. PLUGIN-2: when a worker
/// dies, the episodes it held end with is_done and stop_reason "plugin_error: <why>"; its slot is
/// back with a new worker, on which later episodes run.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/plugin/sandbox/sandbox.hpp"
#include "runtime/tasks/text_environment.hpp"

namespace cohort::plugin {

struct EnvironmentSpec {
  std::string plugin;         // "worlds/maze.py:Maze", "libmaze.so"
  std::string config = "{}";  // JSON object: keyword arguments of the class; create()'s options
  double timeout_s = 10;      // of one reset or step
  uint32_t workers = 2;       // child processes
  SandboxMode mode = SandboxMode::bubblewrap;
  uint64_t memory_bytes = uint64_t{1} << 30;  // of a child
  std::vector<std::string> readable;          // folders a child may read beyond the system's
  bool has_network = false;                   // of a child
  std::string python;                         // interpreter; empty: /usr/bin/python3
  int max_steps = 10;  // [answers] an episode accepts at most; the plugin may say less
};

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
Expected<std::shared_ptr<EnvironmentSource>> open_environment(const EnvironmentSpec& spec);

}  // namespace cohort::plugin
