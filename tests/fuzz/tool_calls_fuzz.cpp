// Any text as an answer that may call tools, in both forms.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/base/check.hpp"
#include "runtime/tasks/tools/tool_calls.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cohort::tasks;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const ToolFormat format : {ToolFormat::hermes, ToolFormat::llama3_json}) {
    for (const bool is_ended : {false, true}) {
      const auto calls = read_tool_calls(text, format, is_ended);
      COHORT_CHECK(calls.size() <= size / 2 + 1, "a call takes two characters");
      for (const ToolCall& call : calls) {
        if (!call.error.empty()) continue;
        COHORT_CHECK(!call.name.empty(), "a call that can be run has a name");
        const auto arguments = nlohmann::json::parse(call.arguments, nullptr, false);
        COHORT_CHECK(arguments.is_object(), "arguments are an object");
      }
    }
  }
  return 0;
}
