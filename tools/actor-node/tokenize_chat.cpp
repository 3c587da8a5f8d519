#include "tools/actor-node/tokenize_chat.hpp"

#include <utility>
#include <vector>

namespace cohort {
namespace {

using ChatJson = nlohmann::ordered_json;

/// Takes a switch out of the variables: the template sees it, and the rendering obeys it.
Expected<bool> take_switch(ChatJson& kwargs, const char* key) {
  const auto found = kwargs.find(key);
  if (found == kwargs.end()) return false;
  if (!found->is_boolean())
    return Error{Errc::invalid_argument, std::string("kwargs.") + key + " must be true or false"};
  const bool value = found->get<bool>();
  kwargs.erase(key);
  return value;
}

ChatJson json_ranges(const std::vector<text::ByteRange>& ranges) {
  ChatJson list = ChatJson::array();
  for (const auto& range : ranges) list.push_back({range.begin, range.end});
  return list;
}

ChatJson value_at(const ChatJson& row, const char* key) {
  const auto found = row.find(key);
  return found == row.end() ? ChatJson() : *found;
}

}  // namespace

Expected<ChatJson> ChatRows::answer(const ChatJson& row) {
  text::ChatInput input;
  input.messages = value_at(row, "messages");
  input.tools = value_at(row, "tools");
  input.documents = value_at(row, "documents");
  input.kwargs = value_at(row, "kwargs");
  if (input.kwargs.is_null()) input.kwargs = ChatJson::object();
  if (!input.kwargs.is_object()) return Error{Errc::invalid_argument, "kwargs must be an object"};
  COHORT_ASSIGN(input.adds_generation_prompt, take_switch(input.kwargs, "add_generation_prompt"));
  COHORT_ASSIGN(input.continues_final_message, take_switch(input.kwargs, "continue_final_message"));
  if (value_at(row, "parse_arguments") == true) {
    COHORT_ASSIGN(input.messages, text::with_parsed_arguments(std::move(input.messages)));
  }
  COHORT_ASSIGN(const text::EncodedChat chat, encoder_.encode(std::move(input)));
  ChatJson out;
  out["text"] = chat.text;
  out["generation"] = json_ranges(text::character_ranges(chat.text, chat.generated));
  if (!has_ids_) return out;
  out["ids"] = chat.ids;
  out["mask"] = ChatJson::array();
  for (const bool is_generated : chat.mask) out["mask"].push_back(is_generated ? 1 : 0);
  return out;
}

}  // namespace cohort
