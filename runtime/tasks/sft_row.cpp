#include "runtime/tasks/sft_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "runtime/tasks/demo_data.hpp"
#include "runtime/tasks/prompt.hpp"

namespace cohort::tasks {
namespace {

constexpr std::array<const char*, 3> k_prompts{"prompt", "instruction", "question"};
constexpr std::array<const char*, 4> k_responses{"response", "output", "answer", "solution"};

/// A column that holds JSON, or a text of JSON (parquet files have no nested columns of any kind).
Expected<RowJson> nested(const RowJson& value, const std::string& name) {
  if (!value.is_string()) return value;
  auto read = json_of(value.get_ref<const std::string&>());
  if (!read) return read.error().with_context(name + " is a text, but");
  return read;
}

Expected<std::string> text_in(const RowJson& value, const std::string& name) {
  if (!value.is_string()) return bad(fmt::format("{} is {}, not a text", name, kind_of(value)));
  return value.get<std::string>();
}

/// The column that was asked for, else the first of the usual ones that the row has.
std::string name_of(const RowJson& row, const std::string& asked,
                    std::span<const char* const> usual) {
  if (!asked.empty()) return asked;
  for (const char* name : usual)
    if (column(row, name)) return name;
  return "";
}

RowJson message(std::string_view role, std::string content) {
  return {{"role", role}, {"content", std::move(content)}};
}

Expected<void> add_system(const RowJson& row, const SftColumns& columns, RowJson& messages) {
  const RowJson* value = columns.system.empty() ? nullptr : column(row, columns.system);
  if (!value) return {};
  COHORT_ASSIGN(std::string text, text_in(*value, columns.system));
  if (!text.empty()) messages.insert(messages.begin(), message("system", std::move(text)));
  return {};
}

/// The prompt is a text, or a chat (verl's).
Expected<void> add_prompt(const RowJson& row, const SftColumns& columns, const std::string& name,
                          RowJson& messages) {
  const RowJson& prompt = *column(row, name);
  if (prompt.is_array()) {
    for (const RowJson& each : prompt) messages.push_back(each);
    return {};
  }
  COHORT_ASSIGN(std::string text, text_in(prompt, name));
  const std::string query = !columns.query.empty()  ? columns.query
                            : name == "instruction" ? "input"
                                                    : "";
  if (const RowJson* more = query.empty() ? nullptr : column(row, query)) {
    COHORT_ASSIGN(const std::string rest, text_in(*more, query));
    if (!rest.empty()) text += "\n" + rest;
  }
  if (text.empty()) return bad(name + " is empty");
  messages.push_back(message("user", std::move(text)));
  return {};
}

/// The column of a whole chat, unless a prompt is asked for by name; none: an empty list.
Expected<RowJson> read_chat(const RowJson& row, const SftColumns& columns) {
  const std::string chat = columns.messages.empty() ? "messages" : columns.messages;
  const bool has_prompt = !columns.prompt.empty() && columns.messages.empty();
  const RowJson* value = has_prompt ? nullptr : column(row, chat);
  if (value == nullptr) return RowJson::array();
  COHORT_ASSIGN(RowJson messages, nested(*value, chat));
  if (!messages.is_array() || messages.empty())
    return bad(chat + " is no list of messages, nor the text of one");
  return messages;
}

Error no_prompt(const RowJson& row, const SftColumns& columns, const std::string& prompt) {
  return bad(fmt::format("no prompt: neither {} nor {} is there, but {}",
                         columns.messages.empty() ? "messages" : columns.messages,
                         prompt.empty() ? "prompt" : prompt, names_of_columns(row)));
}

Expected<RowJson> read_messages(const RowJson& row, const SftColumns& columns) {
  COHORT_ASSIGN(RowJson messages, read_chat(row, columns));
  if (messages.empty()) {
    const std::string prompt = name_of(row, columns.prompt, k_prompts);
    const std::string response = name_of(row, columns.response, k_responses);
    if (prompt.empty() || !column(row, prompt)) return no_prompt(row, columns, prompt);
    if (response.empty() || !column(row, response))
      return bad(fmt::format("no answer to imitate: no {} beside {}, but {}; response_key names it",
                             response.empty() ? "response" : response, prompt,
                             names_of_columns(row)));
    COHORT_TRY(add_prompt(row, columns, prompt, messages));
    COHORT_ASSIGN(std::string answer, text_in(*column(row, response), response));
    if (answer.empty()) return bad(response + " is empty: there is nothing to imitate");
    messages.push_back(message("assistant", std::move(answer)));
  }
  COHORT_TRY(add_system(row, columns, messages));
  return messages;
}

/// Messages in front of both answers; an empty list where the answers are whole dialogues.
Expected<RowJson> read_shared(const RowJson& row, const SftColumns& columns, bool are_dialogues) {
  COHORT_ASSIGN(RowJson messages, read_chat(row, columns));
  if (messages.empty()) {
    const std::string prompt = name_of(row, columns.prompt, k_prompts);
    const bool has_prompt = !prompt.empty() && column(row, prompt) != nullptr;
    if (has_prompt) COHORT_TRY(add_prompt(row, columns, prompt, messages));
    if (!has_prompt && !are_dialogues) return no_prompt(row, columns, prompt);
  }
  if (!messages.empty()) COHORT_TRY(add_system(row, columns, messages));
  return messages;
}

bool is_of_assistant(const RowJson& each) {
  const RowJson* role = each.is_object() ? column(each, "role") : nullptr;
  return role != nullptr && *role == "assistant";
}

/// An answer as messages: a text is the assistant's.
Expected<RowJson> read_answer(const RowJson& row, const std::string& name) {
  const RowJson* value = column(row, name);
  if (value == nullptr)
    return bad(
        fmt::format("no answer {}: the columns are {}; chosen_key and rejected_key name the "
                    "two answers",
                    name, names_of_columns(row)));
  if (value->is_string()) {
    std::string text = value->get<std::string>();
    if (text.empty()) return bad(name + " is empty");
    return RowJson::array({message("assistant", std::move(text))});
  }
  if (!value->is_array() || value->empty() || !is_of_assistant(value->back()))
    return bad(name + " is neither a text nor a list of messages that ends with the assistant's");
  return *value;
}

/// Tools and variables of the template.
Expected<void> read_template(const RowJson& row, const SftColumns& columns, SftRow& read) {
  if (const RowJson* tools = columns.tools.empty() ? nullptr : column(row, columns.tools)) {
    COHORT_ASSIGN(read.tools, nested(*tools, columns.tools));
    if (read.tools.is_array() && read.tools.empty()) read.tools = nullptr;
  }
  if (const RowJson* variables = column(row, "chat_template_kwargs")) {
    COHORT_ASSIGN(read.variables, nested(*variables, "chat_template_kwargs"));
    if (!read.variables.is_object()) return bad("chat_template_kwargs is no object");
  }
  if (const RowJson* thinks = column(row, "enable_thinking"))
    read.variables["enable_thinking"] = *thinks;
  return {};
}

/// One message of a ChatML dialogue.
Expected<ChatMessage> plain_message(const RowJson& each, size_t turn) {
  const std::string where = fmt::format("messages[{}]", turn);
  if (!each.is_object()) return bad(where + " is no object with role and content");
  ChatMessage read;
  for (auto [key, target] : {std::pair{"role", &read.role}, std::pair{"content", &read.content}}) {
    const RowJson* value = column(each, key);
    if (!value) return bad(fmt::format("{} has no {}", where, key));
    COHORT_ASSIGN(*target, text_in(*value, where + "." + key));
  }
  if (read.role != "system" && read.role != "user" && read.role != "assistant" &&
      read.role != "tool")
    return bad(fmt::format("{}.role is \"{}\": system, user, assistant or tool is expected", where,
                           read.role));
  return read;
}

}  // namespace

Expected<SftRow> read_sft_row(std::string_view line, const SftColumns& columns) {
  COHORT_ASSIGN(const RowJson row, parse_row(line));
  SftRow read;
  COHORT_ASSIGN(read.messages, read_messages(row, columns));
  COHORT_TRY(read_template(row, columns, read));
  return read;
}

Expected<PairRow> read_pair_row(std::string_view line, const SftColumns& columns,
                                const PairColumns& answers) {
  COHORT_ASSIGN(const RowJson row, parse_row(line));
  PairRow pair;
  COHORT_ASSIGN(const RowJson chosen, read_answer(row, answers.chosen));
  COHORT_ASSIGN(const RowJson rejected, read_answer(row, answers.rejected));
  if (chosen == rejected)
    return bad(fmt::format("{} and {} are the same: there is nothing to prefer", answers.chosen,
                           answers.rejected));
  const auto is_dialogue = [](const RowJson& answer) { return answer.size() > 1; };
  COHORT_ASSIGN(RowJson shared,
                read_shared(row, columns, is_dialogue(chosen) && is_dialogue(rejected)));
  if (shared.empty()) {
    while (shared.size() < std::min(chosen.size(), rejected.size()) &&
           chosen[shared.size()] == rejected[shared.size()])
      shared.push_back(chosen[shared.size()]);
    if (shared.empty())
      return bad(fmt::format("{} and {} do not begin with one prompt, and no other column has it",
                             answers.chosen, answers.rejected));
    pair.chosen.messages = chosen;
    pair.rejected.messages = rejected;
  } else {
    for (const auto& [side, answer] :
         {std::pair{&pair.chosen, &chosen}, std::pair{&pair.rejected, &rejected}}) {
      side->messages = shared;
      for (const RowJson& each : *answer) side->messages.push_back(each);
    }
  }
  pair.prompt_turns = shared.size();
  COHORT_TRY(read_template(row, columns, pair.chosen));
  pair.rejected.tools = pair.chosen.tools;
  pair.rejected.variables = pair.chosen.variables;
  return pair;
}

PairRow pair_row_of(const Sample& sample) {
  PairRow pair;
  pair.chosen = pair.rejected = sft_row_of(sample);
  pair.prompt_turns = sample.messages.size();
  pair.rejected.messages.back()["content"] = with_wrong_digit(sample.answer);
  return pair;
}

Expected<void> count_behind(MaskedTokens& row, const RowJson& messages, size_t prompt_turns) {
  size_t in_prompt = 0, turns = 0;  // of the assistant
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!is_of_assistant(messages[i])) continue;
    ++turns;
    in_prompt += i < prompt_turns ? 1 : 0;
  }
  if (in_prompt == 0) return {};
  size_t runs = 0;
  for (size_t t = 1; t < row.mask.size(); ++t) {
    if (row.mask[t] == 0) continue;
    if (row.mask[t - 1] == 0 || t == 1) ++runs;
  }
  if (runs != turns)
    return Error{Errc::invalid_argument,
                 fmt::format("the template writes {} turns of the assistant as {}: the answer "
                             "cannot be told from the turns of the prompt",
                             turns, runs)};
  size_t left = in_prompt;
  for (size_t t = 1; t < row.mask.size() && left > 0; ++t) {
    const bool ends = row.mask[t] != 0 && (t + 1 == row.mask.size() || row.mask[t + 1] == 0);
    row.mask[t] = 0;
    left -= ends ? 1 : 0;
  }
  return {};
}

SftRow sft_row_of(const Sample& sample) {
  SftRow row;
  row.id = sample.id;
  for (const ChatMessage& each : sample.messages)
    row.messages.push_back(message(each.role, each.content));
  row.messages.push_back(message("assistant", sample.answer));
  return row;
}

uint64_t MaskedTokens::counted() const {
  return static_cast<uint64_t>(std::ranges::count(mask, uint8_t{1}));
}

// What the assistant says is encoded by itself, as the prompts and answers of a run are.
Expected<MaskedTokens> mask_of_chatml(const SftRow& row, const Tokenizer& tokenizer,
                                      bool is_plain) {
  MaskedTokens out;
  const auto add = [&](std::string_view text, bool is_counted) -> Expected<void> {
    COHORT_ASSIGN(const std::vector<int32_t> ids, tokenizer.encode(text));
    out.tokens.insert(out.tokens.end(), ids.begin(), ids.end());
    out.mask.resize(out.tokens.size(), is_counted ? 1 : 0);
    return {};
  };
  std::string asked;  // since the last answer
  for (size_t turn = 0; turn < row.messages.size(); ++turn) {
    COHORT_ASSIGN(const ChatMessage each, plain_message(row.messages[turn], turn));
    const std::string header = is_plain ? "" : fmt::format("{}{}\n", k_turn_begin, each.role);
    const std::string end = fmt::format("{}{}", k_turn_end, is_plain ? "" : "\n");
    if (each.role != "assistant") {
      asked += header + each.content + (is_plain ? "" : end);
      continue;
    }
    COHORT_TRY(add(asked + header, false));
    COHORT_TRY(add(each.content + std::string(k_turn_end), true));
    asked = is_plain ? "" : "\n";
  }
  if (out.counted() == 0)
    return Error{Errc::invalid_argument,
                 "no message of the assistant: there is nothing to imitate; give one, or take the "
                 "row out"};
  out.mask.front() = 0;
  return out;
}

Expected<void> fit_row(MaskedTokens& row, size_t room, RowCut cut) {
  const size_t size = row.tokens.size();
  if (size <= room) return {};
  if (cut == RowCut::error)
    return Error{Errc::config,
                 fmt::format("{} tokens, sequence_length is {}; truncation: right or left cuts it",
                             size, room)};
  size_t end = size;  // of the assistant's last token; size: it says nothing
  for (size_t i = 0; i < size; ++i)
    if (row.mask[i] != 0) end = i;
  const size_t first = cut == RowCut::left ? size - room : 0;
  row.has_lost_end = end < size && (end < first || end >= first + room);
  row.is_truncated = true;
  const auto keep = [&](auto& column) {
    column.erase(column.begin() + static_cast<ptrdiff_t>(first + room), column.end());
    column.erase(column.begin(), column.begin() + static_cast<ptrdiff_t>(first));
  };
  keep(row.tokens);
  keep(row.mask);
  row.mask.front() = 0;
  return {};
}

}  // namespace cohort::tasks
