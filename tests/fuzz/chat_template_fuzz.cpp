// Any bytes as a chat template, over a dialogue with tools; what it makes is valid and bounded.
#include <cstdint>
#include <string_view>

#include "runtime/base/check.hpp"
#include "runtime/text/template/chat_template.hpp"
#include "runtime/text/unicode.hpp"

namespace {

using namespace cohort;
using namespace cohort::text;

ChatInput fuzz_dialogue() {
  ChatInput input;
  using FuzzJson = nlohmann::ordered_json;
  input.messages = FuzzJson::parse(R"([
      {"role": "system", "content": " s\n"}, {"role": "user", "content": "<u> é \"q\""},
      {"role": "assistant", "content": "<think>\nt</think>a", "tool_calls": [
        {"id": "1", "function": {"name": "f", "arguments": {"x": 1.5, "y": [null]}}}]},
      {"role": "tool", "content": "42"}])");
  input.tools = FuzzJson::parse(R"([{"type": "function", "function": {"name": "f"}}])");
  input.kwargs = {{"x", 3}, {"enable_thinking", false}};
  input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  input.adds_generation_prompt = true;
  input.local_time = std::tm{};
  return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ChatInput input = fuzz_dialogue();
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto compiled = ChatTemplate::compile(source);
  if (!compiled) return 0;
  const TemplateLimits limits{
      .steps = 50'000, .live_bytes = size_t{8} << 20, .output_bytes = size_t{1} << 20};
  const auto chat = compiled->render(input, limits);
  if (!chat) return 0;
  COHORT_CHECK(chat->text.size() <= limits.output_bytes, "the text is bounded");
  COHORT_CHECK(is_valid_utf8(chat->text), "the text is UTF-8");
  for (const ByteRange& range : chat->generated)
    COHORT_CHECK(range.begin <= range.end && range.end <= chat->text.size(),
                 "ranges lie in the text");
  return 0;
}
