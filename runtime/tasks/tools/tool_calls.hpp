#pragma once
/// The tool calls in an answer, in the forms that model families were trained on. Pure; any text is
/// read, and what looks like a call and is none is a call with an error, for the policy to see.
///   hermes       <tool_call>{"name": "f", "arguments": {…}}</tool_call>, any number of them, text
///                around (Hermes 2 Pro, Qwen2.5, Qwen3)
///   llama3_json  <|python_tag|>{"name": "f", "parameters": {…}}, further objects behind it with or
///                without "; " between; or the object alone, from the first character of the answer
///                (Llama 3.1 to 3.3)
/// Both take "arguments" or "parameters": an object, an object written as a text, or nothing.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::tasks {

enum class ToolFormat : uint8_t { hermes, llama3_json };

struct ToolCall {
  std::string name;
  std::string arguments = "{}";  // JSON object, at most k_tool_depth_max deep
  std::string error;             // why it cannot be run; empty: it can
  bool operator==(const ToolCall&) const = default;
};

constexpr size_t k_tool_depth_max = 64;  // brackets in brackets

/// Returns the calls of an answer in their order; none: it calls nothing. `is_ended`: the policy
/// ended the answer itself. One that its token budget cut in the middle of a call has not called.
std::vector<ToolCall> read_tool_calls(std::string_view answer, ToolFormat format, bool is_ended);

}  // namespace cohort::tasks
