#include "runtime/tasks/chat_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/tasks/dialogue_text.hpp"
#include "runtime/tasks/prompt.hpp"

namespace cohort::tasks {
namespace {

constexpr std::string_view k_tool_role = "tool";
constexpr std::string_view k_default_system = "You are a helpful assistant.";

std::string chatml_message(std::string_view role, std::string_view content) {
  return fmt::format("{}{}\n{}{}\n", k_turn_begin, role, content, k_turn_end);
}

/// What a tool said, without special tokens: "<|" is written apart.
std::string disarmed(std::string_view content) {
  std::string out;
  for (size_t at = 0;;) {
    const size_t next = content.find("<|", at);
    out += content.substr(at, next - at);
    if (next == std::string_view::npos) return out;
    out += "< |";
    at = next + 2;
  }
}

/// Messages of tools that follow each other are one turn.
std::string chatml_messages(std::span<const ChatMessage> messages) {
  std::string text;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != k_tool_role) {
      text += chatml_message(messages[i].role, messages[i].content);
      continue;
    }
    std::string said;
    for (; i < messages.size() && messages[i].role == k_tool_role; ++i)
      said += fmt::format("{}<tool_response>\n{}\n</tool_response>", said.empty() ? "" : "\n",
                          disarmed(messages[i].content));
    --i;
    text += chatml_message("user", said);
  }
  return text;
}

/// Qwen2.5's words about tools, for a policy that was trained on them.
std::string tools_text(const nlohmann::ordered_json& schemas) {
  std::string text =
      "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "
      "provided with function signatures within <tools></tools> XML tags:\n<tools>";
  for (const auto& schema : schemas) text += "\n" + schema.dump();
  return text +
         "\n</tools>\n\nFor each function call, return a json object with function name and "
         "arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": "
         "<function-name>, \"arguments\": <args-json-object>}\n</tool_call>";
}

/// What a message of another program says, its calls as Qwen2.5 writes them.
std::string content_with_calls(const nlohmann::ordered_json& message) {
  std::string said = message["content"];
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return said;
  for (const auto& call : *calls) {
    const auto& function = call.contains("function") ? call["function"] : call;
    const nlohmann::ordered_json written{
        {"name", function.value("name", "")},
        {"arguments", function.value("arguments", nlohmann::ordered_json::object())}};
    said +=
        fmt::format("{}<tool_call>\n{}\n</tool_call>", said.empty() ? "" : "\n", written.dump());
  }
  return said;
}

std::string assistant_header() { return fmt::format("{}assistant\n", k_turn_begin); }

class Chatml final : public ChatFormat {
 public:
  using ChatFormat::following;
  Chatml(std::shared_ptr<const Tokenizer> tokenizer, const ChatmlOptions& options,
         std::vector<int32_t> ends)
      : tokenizer_(std::move(tokenizer)), is_plain_(options.is_plain), ends_(std::move(ends)) {
    if (!options.tools.empty())
      tools_ = tools_text(nlohmann::ordered_json::parse(options.tools, nullptr, false));
    for (const int32_t id : ends_) end_texts_.push_back(tokenizer_->decode({&id, 1}));
  }

  Expected<std::string> text(std::span<const ChatMessage> dialogue) const override {
    return text(dialogue, tools_);
  }
  Expected<std::vector<int32_t>> opening(std::span<const ChatMessage> dialogue) const override {
    return tokenizer_->encode(text(dialogue, tools_));
  }
  Expected<std::vector<int32_t>> opening(const WrittenDialogue& dialogue) const override {
    std::vector<ChatMessage> messages;
    for (const auto& message : dialogue.messages)
      messages.push_back({message["role"], content_with_calls(message)});
    return tokenizer_->encode(
        text(messages, dialogue.tools.is_null() ? "" : tools_text(dialogue.tools)));
  }
  Expected<std::vector<int32_t>> following(std::span<const ChatMessage> messages,
                                           std::string_view answer) const override {
    if (is_plain_) return tokenizer_->encode(contents(messages));
    const std::string_view end = is_ended(answer) ? "" : k_turn_end;
    return tokenizer_->encode(
        fmt::format("{}\n{}{}", end, chatml_messages(messages), assistant_header()));
  }
  std::span<const int32_t> answer_ends() const override { return ends_; }

 private:
  std::string text(std::span<const ChatMessage> dialogue, const std::string& tools) const {
    if (is_plain_) return contents(dialogue);
    if (tools.empty()) return chatml_messages(dialogue) + assistant_header();
    std::vector<ChatMessage> shown(dialogue.begin(), dialogue.end());
    if (shown.empty() || shown.front().role != "system")
      shown.insert(shown.begin(), {"system", std::string(k_default_system)});
    shown.front().content += tools;
    return chatml_messages(shown) + assistant_header();
  }
  static std::string contents(std::span<const ChatMessage> messages) {
    std::string text;
    for (const ChatMessage& each : messages)
      text += each.role == k_tool_role ? disarmed(each.content) : each.content;
    return text;
  }
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool is_plain_;
  std::string tools_;  // behind the system message; empty: no tools are shown
  std::vector<int32_t> ends_;
};

}  // namespace

std::string_view ChatFormat::end_of(std::string_view answer) const {
  for (const std::string& end : end_texts_)
    if (answer.ends_with(end)) return end;
  return "";
}

std::string_view ChatFormat::without_end(std::string_view answer) const {
  answer.remove_suffix(end_of(answer).size());
  return answer;
}

Expected<std::shared_ptr<const ChatFormat>> make_chatml(std::shared_ptr<const Tokenizer> tokenizer,
                                                        ChatmlOptions options) {
  if (options.is_plain && !options.tools.empty())
    return Error{Errc::config,
                 "a template without markup shows no tools; set multi_turn.shows_tools: false"};
  std::vector<int32_t> ends;
  if (const std::optional<int32_t> end = tokenizer->token_id(k_turn_end)) ends.push_back(*end);
  const bool is_needed = !options.is_plain || options.more_ends.empty();
  if (ends.empty() && is_needed)
    return Error{Errc::config,
                 fmt::format("{} is no token of the vocabulary: no answer would end", k_turn_end)};
  for (const int32_t id : options.more_ends)
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  return std::shared_ptr<const ChatFormat>(
      std::make_shared<const Chatml>(std::move(tokenizer), options, std::move(ends)));
}

}  // namespace cohort::tasks
