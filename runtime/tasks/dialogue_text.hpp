#pragma once
/// An observation that is a whole dialogue: an environment, or an agent of another program, says
/// all that the policy is to read, as OpenAI's chat completions take it: {"messages": [{"role",
/// "content", "tool_calls", …}, …], "tools": [schema, …]}. Pure; any thread.
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/tasks/dataset.hpp"

namespace cohort::tasks {

struct WrittenDialogue {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools;  // null: none
};

/// Reads the text of an observation. Contents become texts (parts of type text are joined), and
/// arguments of calls objects; an empty text is a user's message without content. Returns
/// Errc::invalid_argument naming the message for what is no dialogue, or shows more than text.
Expected<WrittenDialogue> read_dialogue(std::string_view text);

/// Returns the messages behind the answer where `next` is `last`, the answer, and they: a dialogue
/// that goes on. They are one message, or several of role tool. An assistant's message is the
/// answer if its content is, or its key "said", by which a server tells what it read calls out of.
std::optional<std::vector<ChatMessage>> messages_behind(const WrittenDialogue& last,
                                                        std::string_view answer,
                                                        const WrittenDialogue& next);

}  // namespace cohort::tasks
