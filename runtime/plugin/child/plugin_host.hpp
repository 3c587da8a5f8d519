#pragma once
/// The child of a C++ plugin: loads one shared object and serves it on a pipe (plugin_frames.hpp),
/// so that a fault of the plugin costs a child and not the run. tools/plugin-host is its main.
namespace cohort::plugin {

/// Serves until the pipe ends. The plugin's prints go to stderr. Returns the exit code.
int serve_plugin_host();

}  // namespace cohort::plugin
