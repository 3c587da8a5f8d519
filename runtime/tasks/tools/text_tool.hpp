#pragma once
/// A tool that an answer of the policy may call: the seam between the agent loop (tool_world.hpp)
/// and what runs the call (runtime/plugin/tool). Owner: its opener. Thread-safe.
/// TOOL-1: call() ends: a tool that waits for a process has a deadline. TOOL-2: a call that fails
/// is a result with a reason, never an error of its caller.
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

enum class ToolEnding : uint8_t { answered, failed, timed_out };

/// What one call gave.
struct ToolResult {
  ToolEnding ending = ToolEnding::answered;
  std::string text;     // the tool's output; of a call that failed, as far as it came
  std::string failure;  // in words; empty if it answered
  double seconds = 0;   // from the call to its result, without the wait for a free worker
};

class Tool {
 public:
  Tool() = default;
  Tool(const Tool&) = delete;
  Tool& operator=(const Tool&) = delete;
  virtual ~Tool() = default;

  /// Runs the tool with `arguments` (a JSON object). It waits for a free worker, each of which is
  /// free again within its deadline, and then at most its own deadline.
  virtual ToolResult call(std::string_view arguments) = 0;
  /// Returns what the prompt tells the policy, as chat templates take it: a JSON object
  /// {"type": "function", "function": {"name", "description", "parameters"}}.
  virtual std::string schema() const = 0;
  /// Takes the newer version of the file it was loaded from. Returns whether there was one; on an
  /// error the old version stays. Called between steps.
  virtual Expected<bool> reload() { return false; }
  /// Ends every call under way and every later one with a failure. Any thread.
  virtual void stop() {}
};

}  // namespace cohort::tasks
