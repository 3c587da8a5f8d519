#pragma once
/// The agent loop: a world (a row, an environment) whose answers may call tools. An answer with
/// calls does not reach the world: the tools run, and what they said is appended as messages of
/// role tool (StepResult::messages). An answer without one is the world's. docs/tools.md tells the
/// loop. Owner: the environment actor that plays it, which has a thread of its own: step() waits
/// for the tools. Bound: a turn has calls_max calls under way at once, each on a thread (TOOL-1).
/// TOOL-3: a call that cannot be read, names no tool, or fails gives the policy a message, and ends
/// no episode.
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/tasks/text_environment.hpp"
#include "runtime/tasks/tools/text_tool.hpp"
#include "runtime/tasks/tools/tool_calls.hpp"
#include "runtime/tasks/tools/tool_text.hpp"

namespace cohort::tasks {

class ChatFormat;

/// What the worlds of a run share.
struct ToolLoop {
  std::map<std::string, std::shared_ptr<Tool>> tools;  // by the name that calls give
  ToolFormat format = ToolFormat::hermes;
  int assistant_turns_max = 0;  // answers of an episode; 0: no bound
  int user_turns_max = 0;       // answers with calls that are run; 0: no bound
  int calls_max = 1;            // calls of one answer that are run
  std::shared_ptr<const ChatFormat> chat;
  std::shared_ptr<const ToolText> text;
};

/// Returns the JSON list of the tools' schemas, in the order of their names, for the prompt. A
/// schema's own name gives way to the one that calls give.
std::string tool_schemas(const ToolLoop& loop);

inline constexpr const char* k_tool_calls = "tool_calls";  // metric of every episode with tools

/// Returns `inner` with tools. Its episodes have the metrics tool_calls, tool_errors,
/// tool_timeouts and tool_seconds, and the stop reason "max_turns" where a bound on turns ends
/// them.
std::unique_ptr<Environment> with_tools(std::unique_ptr<Environment> inner,
                                        std::shared_ptr<const ToolLoop> loop);

}  // namespace cohort::tasks
