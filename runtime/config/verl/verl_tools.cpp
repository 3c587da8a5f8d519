#include "runtime/config/verl/verl_tools.hpp"

#include <algorithm>

#include "runtime/config/tree/yaml_reader.hpp"
#include "runtime/config/verl/verl_check.hpp"
#include "runtime/config/verl/verl_rows.hpp"

namespace cohort::config {
namespace {

const std::string k_section = "actor_rollout_ref.rollout.multi_turn.";

std::string text_at(const Node& node, std::string_view path) {
  const Node* found = node.at_path(path);
  return found != nullptr && found->kind == NodeKind::scalar ? found->scalar : std::string();
}

/// What a remote sandbox is told, for the one of this machine.
void set_sandbox(ToolConfig& tool, const Node& config, const std::string& key, Findings& f) {
  tool.type = ToolType::python;
  if (const Node* limit = config.at_path("default_timeout"))
    tool.plugin.timeout_s = as_double(*limit).value_or(tool.plugin.timeout_s);
  if (const Node* size = config.at_path("memory_limit_mb"))
    if (auto mb = as_int(*size); mb && *mb > 0)
      tool.plugin.sandbox.memory_bytes = static_cast<uint64_t>(*mb) << 20;
  f.note(key,
         "sandbox_fusion_url, num_workers, rate_limit: code runs in the sandbox of this "
         "machine, as many at once as tools.NAME.workers says (2)");
}

/// A file of the user's, or the interpreter in verl's clothes.
Expected<ToolConfig> tool_of(const Node& entry, const std::string& key, Findings& f) {
  ToolConfig tool;
  const std::string name = text_at(entry, "class_name");
  const Node* config = entry.at_path("config");
  const Node none = Node::make_map({});
  if (config == nullptr) config = &none;
  if (name.find("SandboxFusion") != std::string::npos || name == "python") {
    set_sandbox(tool, *config, key, f);
  } else if (name.find(".py:") != std::string::npos || name.ends_with(".so")) {
    tool.plugin.path = home_expanded(name);
    tool.plugin.args = to_json(*config);
  } else {
    return fault(entry.mark,
                 "class_name '{}' is no tool here: a Python class is named by its file, "
                 "path/to/tool.py:Class; python, and the classes of SandboxFusion, are the "
                 "sandboxed interpreter",
                 name);
  }
  if (const Node* schema = entry.at_path("tool_schema")) tool.schema = to_json(*schema);
  return tool;
}

Expected<void> read_tools(RunConfig& r, const std::string& path, Findings& f) {
  const std::string key = k_section + "tool_config_path";
  COHORT_ASSIGN(const Node root, read_yaml(home_expanded(path)));
  const Node* list = root.at_path("tools");
  if (list == nullptr || list->kind != NodeKind::sequence)
    return fault(root.mark, "`tools` is no list of tools");
  for (const Node& entry : list->items) {
    COHORT_ASSIGN(ToolConfig tool, tool_of(entry, key, f));
    std::string name = text_at(entry, "tool_schema.function.name");
    if (name.empty())
      return fault(entry.mark, "tool_schema.function.name is missing: calls give this name");
    if (!r.tools.emplace(name, std::move(tool)).second)
      return fault(entry.mark, "there is another tool '{}'", name);
  }
  return {};
}

}  // namespace

void set_verl_tools(RunConfig& r, const VerlMultiTurn& verl, Findings& f) {
  if (!verl.enable) {
    if (!r.tools.empty()) f.note("tools", "actor_rollout_ref.rollout.multi_turn.enable is False");
    r.tools.clear();
    return;
  }
  MultiTurnSection& ours = r.multi_turn;
  const auto take = [&](const char* key, auto& to, auto from) {
    if (f.has(k_section + key) || !f.has(std::string("multi_turn.") + key)) to = from;
  };
  take("format", ours.format, verl.format);
  take("max_assistant_turns", ours.max_assistant_turns, verl.max_assistant_turns.value_or(0));
  take("max_user_turns", ours.max_user_turns, verl.max_user_turns.value_or(0));
  take("max_parallel_calls", ours.max_parallel_calls, verl.max_parallel_calls);
  take("max_tool_response_length", ours.max_tool_response_length, verl.max_tool_response_length);
  take("tool_response_truncate_side", ours.tool_response_truncate_side,
       verl.tool_response_truncate_side);
  if (!verl.tool_config_path.empty())
    if (auto read = read_tools(r, verl.tool_config_path, f); !read)
      verl_problem(f, k_section + "tool_config_path", "{}", read.error().detail);
  if (r.tools.empty() && f.problems.empty())
    f.warn(k_section + "enable", "there are no tools: name a file in tool_config_path");
}

}  // namespace cohort::config
