/// Keys of the tools that answers may call, and of the loop that runs them.
#include "runtime/config/roll/describe.hpp"

namespace cohort::config {
namespace {

constexpr std::string_view k_tools = "environments";  // who reads them

void describe_tool(Visitor& v, ToolConfig& tool) {
  v.key({"type", k_tools,
         "plugin: path.py:name or path.so. python: the interpreter of code_sandbox, a new process "
         "for each call."},
        tool.type);
  describe_plugin(v, tool.plugin, k_tools);
  v.json_map({"schema", k_tools,
              "What the prompt shows, {type: function, function: {description, parameters}}; {}: "
              "what the tool says itself."},
             tool.schema);
  v.bytes({"max_output_bytes", k_tools, "Of one call; more is an error that the policy reads."},
          tool.max_output_bytes);
}

void describe_multi_turn(Visitor& v, MultiTurnSection& m) {
  if (!v.enter({"multi_turn", k_tools, "The loop of answers that call tools (docs/tools.md)."},
               m != MultiTurnSection{} || v.is_listing()))
    return;
  v.key({"format", k_tools, "How answers write calls: <tool_call> or <|python_tag|>."}, m.format);
  v.key({"max_assistant_turns", k_tools, "Answers of a trajectory; 0: no bound.", at_least(0)},
        m.max_assistant_turns);
  v.key({"max_user_turns", k_tools, "Answers of it whose calls are run; 0: no bound.", at_least(0)},
        m.max_user_turns);
  v.key({"max_parallel_calls", k_tools, "Calls of one answer that are run.", between(1, 1 << 10)},
        m.max_parallel_calls);
  v.key({"max_tool_response_length", k_tools, "Characters of a tool's text; 0: no bound.",
         at_least(0)},
        m.max_tool_response_length);
  v.key({"max_tool_response_tokens", k_tools, "Tokens of it; 0: no bound.", at_least(0)},
        m.max_tool_response_tokens);
  v.key({"tool_response_truncate_side", k_tools,
         "What stays of a longer one: its left, its right, or half of both."},
        m.tool_response_truncate_side);
  v.key({"shows_tools", k_tools,
         "The prompt lists the tools' schemas, as the chat template does; false: the policy was "
         "trained to call them."},
        m.shows_tools);
  v.leave();
}

}  // namespace

void describe_tools(Visitor& v, RunConfig& c) {
  std::vector<std::string> names;
  for (const auto& [name, tool] : c.tools) names.push_back(name);
  v.each({"tools", k_tools, "What answers may call, by the name that calls give; none: nothing."},
         names, [&](const std::string& name) { describe_tool(v, c.tools[name]); });
  describe_multi_turn(v, c.multi_turn);
}

}  // namespace cohort::config
