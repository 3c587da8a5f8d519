#pragma once
/// One door to every tool: the Python interpreter that ships with Cohort (python_tool.hpp), a
/// Python plugin (path.py:function, path.py:Class) or a C++ one (path.so). Thread-safe.
#include <memory>
#include <string_view>

#include "runtime/plugin/hosted_spec.hpp"
#include "runtime/tasks/tools/text_tool.hpp"

namespace cohort::plugin {

constexpr std::string_view k_python_tool = "python";

/// spec.plugin: "python", or a path. A plugin's children have loaded it when this returns. Returns
/// Errc::config naming the fault of the spec or the plugin, Errc::not_found for the file,
/// Errc::unsupported for another ABI version or a machine without sandbox.
Expected<std::shared_ptr<tasks::Tool>> open_tool(const PluginSpec& spec);

/// Returns the name under which calls ask for a tool of this schema; "" if it has none.
std::string tool_name(std::string_view schema);

}  // namespace cohort::plugin
