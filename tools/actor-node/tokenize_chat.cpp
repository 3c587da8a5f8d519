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

Expected<text::ChatTemplate> ChatRows::template_for(bool has_tools) {
  std::string source;
  if (options_.source) {
    source = *options_.source;
  } else {
    COHORT_ASSIGN(source, options_.folder->chat_template(has_tools));
  }
  const auto known = compiled_.find(source);
  if (known != compiled_.end()) return known->second;
  COHORT_ASSIGN(const text::ChatTemplate made, text::ChatTemplate::compile(source));
  compiled_.emplace(std::move(source), made);
  return made;
}

Expected<ChatJson> ChatRows::answer(const ChatJson& row) {
  text::ChatInput input;
  input.messages = value_at(row, "messages");
  input.tools = value_at(row, "tools");
  input.documents = value_at(row, "documents");
  input.kwargs = value_at(row, "kwargs");
  input.local_time = options_.local_time;
  if (input.kwargs.is_null()) input.kwargs = ChatJson::object();
  if (!input.kwargs.is_object()) return Error{Errc::invalid_argument, "kwargs must be an object"};
  COHORT_ASSIGN(input.adds_generation_prompt, take_switch(input.kwargs, "add_generation_prompt"));
  COHORT_ASSIGN(input.continues_final_message, take_switch(input.kwargs, "continue_final_message"));
  if (value_at(row, "parse_arguments") == true) {
    COHORT_ASSIGN(input.messages, text::with_parsed_arguments(std::move(input.messages)));
  }
  if (options_.folder != nullptr) input.special_tokens = options_.folder->special_tokens;
  if (options_.bos) input.special_tokens["bos_token"] = *options_.bos;
  if (options_.eos) input.special_tokens["eos_token"] = *options_.eos;

  const bool has_tools = !input.tools.is_null();
  COHORT_ASSIGN(const text::ChatTemplate chat_template, template_for(has_tools));
  COHORT_ASSIGN(const text::RenderedChat chat, chat_template.render(input));
  ChatJson out;
  out["text"] = chat.text;
  out["generation"] = json_ranges(text::character_ranges(chat.text, chat.generated));
  if (options_.folder == nullptr) return out;
  // The template has written bos itself.
  COHORT_ASSIGN(const text::Encoding encoding,
                options_.folder->tokenizer.encode(
                    chat.text, {.adds_special_tokens = false, .wants_offsets = true}));
  std::vector<text::ByteRange> offsets;
  for (const auto& span : encoding.offsets) offsets.push_back({span.begin, span.end});
  out["ids"] = encoding.ids;
  out["mask"] = ChatJson::array();
  for (const bool is_generated : text::token_mask(offsets, chat.generated))
    out["mask"].push_back(is_generated ? 1 : 0);
  return out;
}

}  // namespace cohort
