#pragma once
/// The Python interpreter as a tool (ReTool's code_interpreter): runs the code of a call in a fresh
/// sandbox of code_sandbox (CODE-2), and says what it printed, the value of a last expression, and
/// the exception that ended it. Owner: its opener. Thread-safe; calls beyond the workers wait for
/// one. TOOL-1, TOOL-2. Bound: memory, processes, output and time by the spec.
#include <memory>

#include "runtime/plugin/hosted_spec.hpp"
#include "runtime/tasks/tools/text_tool.hpp"

namespace cohort::plugin {

/// The code is the text argument that the schema requires first, "code" unless spec.schema has
/// another. A fenced block in it is taken for the code. spec.config takes no options. Returns
/// Errc::config for a schema without such an argument, Errc::unsupported without a sandbox or
/// Python.
Expected<std::shared_ptr<tasks::Tool>> open_python_tool(const PluginSpec& spec);

}  // namespace cohort::plugin
