#pragma once
/// Members of RunConfig (run_config.hpp): what is loaded as a plugin, and tools.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/enums.hpp"

namespace cohort::config {

/// What a child process of a reward, or of an environment, may do.
struct SandboxSection {
  SandboxMode mode = SandboxMode::bubblewrap;
  bool network = false;
  std::vector<std::string> readable;  // folders beyond the system's
  uint64_t memory_bytes = uint64_t{1} << 30;
  bool operator==(const SandboxSection&) const = default;
};

/// A reward or an environment that is loaded, and what is asked of it.
struct PluginSection {
  std::string path;         // key `plugin`: path.py:name or path.so; empty: it is built in
  std::string args = "{}";  // JSON object: its own options
  double timeout_s = 10;    // deadline of one answer, of one reset or step
  int64_t workers = 2;      // child processes, or requests at once
  std::string python;       // interpreter; empty: the system's
  // Of worlds that a Python package registers with GEM: what is imported, and folders to look in.
  std::vector<std::string> modules, pythonpath;
  SandboxSection sandbox;
  bool operator==(const PluginSection&) const = default;
};

/// One entry of tools, keyed by the name that calls give.
struct ToolConfig {
  ToolType type = ToolType::plugin;
  PluginSection plugin;       // its keys are the entry's own
  std::string schema = "{}";  // JSON object that the prompt shows; {}: the tool's own
  uint64_t max_output_bytes = uint64_t{1} << 20;
  bool operator==(const ToolConfig&) const = default;
};

/// The agent loop of answers that call tools; its limits are verl's.
struct MultiTurnSection {
  ToolFormat format = ToolFormat::hermes;
  int64_t max_assistant_turns = 0;         // 0: no bound
  int64_t max_user_turns = 0;              // 0: no bound
  int64_t max_parallel_calls = 1;          // of one answer
  int64_t max_tool_response_length = 256;  // [characters]; 0: no bound
  int64_t max_tool_response_tokens = 0;    // 0: no bound
  CutSide tool_response_truncate_side = CutSide::middle;
  bool shows_tools = true;  // the prompt lists the schemas
  bool operator==(const MultiTurnSection&) const = default;
};

}  // namespace cohort::config
