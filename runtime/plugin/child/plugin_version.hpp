#pragma once
/// Which version of a plugin's file there is, and how to start children of it. Values. A Python
/// child is given the source as it was when the version was read, so that an edit changes nothing
/// before the next reload; each child reads the file's imports when it starts, and a change of an
/// import alone is not noticed. A shared object is mapped from its file: replace it by rename, as
/// linkers do.
#include <string>
#include <string_view>

#include "runtime/plugin/child/plugin_worker.hpp"
#include "runtime/plugin/hosted_spec.hpp"

namespace cohort::plugin {

struct PluginVersion {
  std::string fingerprint;  // of the file's content
  LaunchSpec launch;
};

/// Returns whether `plugin` names a Python file ("a.py", "a.py:f") or a shared object ("a.so").
bool is_python_plugin(std::string_view plugin);
bool is_native_plugin(std::string_view plugin);

/// Reads the file as it is now. Returns Errc::not_found naming the path, Errc::config for options
/// that are no JSON object, Errc::unsupported without a Python interpreter or without
/// cohort-plugin-host beside this program.
Expected<PluginVersion> read_version(const PluginSpec& file);

}  // namespace cohort::plugin
