#include "runtime/plugin/tool/open_tool.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/plugin/child/plugin_version.hpp"
#include "runtime/plugin/tool/child_tool.hpp"
#include "runtime/plugin/tool/python_tool.hpp"

namespace cohort::plugin {

Expected<std::shared_ptr<tasks::Tool>> open_tool(const PluginSpec& spec) {
  if (!(spec.timeout_s > 0) || spec.workers == 0 || spec.output_bytes_max == 0)
    return Error{Errc::config, fmt::format("{}: timeout_s and the bytes of an output are above 0, "
                                           "workers 1 or more",
                                           spec.plugin)};
  if (spec.plugin == k_python_tool) return open_python_tool(spec);
  if (!is_native_plugin(spec.plugin) && !is_python_plugin(spec.plugin))
    return Error{Errc::config,
                 fmt::format("no tool is called '{}': python, path.py:function, path.py:Class or "
                             "path.so",
                             spec.plugin)};
  COHORT_ASSIGN(std::shared_ptr<tasks::Tool> tool, ChildTool::open(spec));
  return tool;
}

std::string tool_name(std::string_view schema) {
  const auto json = nlohmann::json::parse(schema, nullptr, false);
  if (!json.is_object()) return "";
  const auto function = json.find("function");
  if (function == json.end() || !function->is_object()) return "";
  const auto name = function->find("name");
  return name != function->end() && name->is_string() ? name->get<std::string>() : "";
}

}  // namespace cohort::plugin
