#pragma once
/// Which version of a plugin's file there is, and how to start children of it. Values. A Python
/// child is given the source as it was when the version was read, so that an edit changes nothing
/// before the next reload; each child reads the file's imports when it starts, and a change of an
/// import alone is not noticed. A shared object is mapped from its file: replace it by rename, as
/// linkers do.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/plugin/child/plugin_worker.hpp"

namespace cohort::plugin {

/// The common options of a plugin's reward and environment: its file, and its children's rights.
struct PluginFile {
  std::string plugin;  // "rewards/mine.py:score", "libmine.so"
  std::string config = "{}";
  bool is_environment = false;
  double timeout_s = 10;
  SandboxMode mode = SandboxMode::bubblewrap;
  uint64_t memory_bytes = uint64_t{1} << 30;
  std::vector<std::string> readable;
  bool has_network = false;
  std::string python;
};

struct PluginVersion {
  std::string fingerprint;  // of the file's content
  LaunchSpec launch;
};

using ReadVersion = std::function<Expected<PluginVersion>()>;

/// Returns whether `plugin` names a Python file ("a.py", "a.py:f") or a shared object ("a.so").
bool is_python_plugin(std::string_view plugin);
bool is_native_plugin(std::string_view plugin);

/// Reads the file as it is now. Returns Errc::not_found naming the path, Errc::config for options
/// that are no JSON object, Errc::unsupported without a Python interpreter or without
/// cohort-plugin-host beside this program.
Expected<PluginVersion> read_version(const PluginFile& file);

}  // namespace cohort::plugin
