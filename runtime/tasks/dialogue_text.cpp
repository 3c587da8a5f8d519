#include "runtime/tasks/dialogue_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/tasks/row_json.hpp"
#include "runtime/text/template/chat_template.hpp"

namespace cohort::tasks {
namespace {

Error refused(size_t number, std::string_view what) {
  return {Errc::invalid_argument, fmt::format("message {} of a dialogue {}", number, what)};
}

/// Returns the text of a message, which a program gives as one, as null, or as a list of parts.
Expected<std::string> content_of(const RowJson& message, size_t number) {
  const auto found = message.find("content");
  if (found == message.end() || found->is_null()) return std::string();
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return refused(number, "has a content that is " + kind_of(*found));
  std::string said;
  for (const RowJson& part : *found) {
    const bool is_text = part.is_object() && part.value("type", "") == "text" &&
                         part.contains("text") && part["text"].is_string();
    if (!is_text) return refused(number, "shows more than text, which is all the policy reads");
    said += part["text"].get<std::string>();
  }
  return said;
}

}  // namespace

Expected<WrittenDialogue> read_dialogue(std::string_view text) {
  WrittenDialogue dialogue;
  if (text.empty()) {
    dialogue.messages.push_back({{"role", "user"}, {"content", ""}});
    return dialogue;
  }
  COHORT_ASSIGN(RowJson told, json_of(text));
  if (!told.is_object() || !told.contains("messages") || !told["messages"].is_array())
    return Error{Errc::invalid_argument, "a dialogue is {\"messages\": […], \"tools\": […]}"};
  for (const RowJson& message : told["messages"]) {
    const size_t number = dialogue.messages.size() + 1;
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      return refused(number, "has no role");
    RowJson read = message;
    COHORT_ASSIGN(read["content"], content_of(message, number));
    if (read["role"] == "developer") read["role"] = "system";  // OpenAI's later name
    dialogue.messages.push_back(std::move(read));
  }
  COHORT_ASSIGN(dialogue.messages, text::with_parsed_arguments(std::move(dialogue.messages)));
  if (told.contains("tools") && told["tools"].is_array() && !told["tools"].empty())
    dialogue.tools = std::move(told["tools"]);
  return dialogue;
}

std::optional<std::vector<ChatMessage>> messages_behind(const WrittenDialogue& last,
                                                        std::string_view answer,
                                                        const WrittenDialogue& next) {
  const size_t known = last.messages.size();
  if (known == 0 || next.messages.size() < known + 2 || next.tools != last.tools) return {};
  if (!std::equal(last.messages.begin(), last.messages.end(), next.messages.begin())) return {};
  const RowJson& said = next.messages[known];
  const auto raw = said.find("said");
  const bool is_answer = said["role"] == "assistant" &&
                         (raw != said.end() ? *raw == answer : said["content"] == answer);
  if (!is_answer) return {};
  std::vector<ChatMessage> behind;
  for (size_t i = known + 1; i < next.messages.size(); ++i)
    behind.push_back({next.messages[i]["role"], next.messages[i]["content"]});
  const bool is_one_turn = behind.size() == 1 || std::ranges::all_of(behind, [](const auto& x) {
                             return x.role == "tool";
                           });
  if (!is_one_turn || behind.front().role == "assistant") return {};
  return behind;
}

}  // namespace cohort::tasks
