#include "runtime/tasks/sft_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

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

Expected<RowJson> read_messages(const RowJson& row, const SftColumns& columns) {
  const std::string chat = columns.messages.empty() ? "messages" : columns.messages;
  RowJson messages = RowJson::array();
  const bool is_pair = !columns.prompt.empty() && columns.messages.empty();
  if (const RowJson* value = is_pair ? nullptr : column(row, chat)) {
    COHORT_ASSIGN(messages, nested(*value, chat));
    if (!messages.is_array() || messages.empty())
      return bad(chat + " is no list of messages, nor the text of one");
  } else {
    const std::string prompt = name_of(row, columns.prompt, k_prompts);
    const std::string response = name_of(row, columns.response, k_responses);
    if (prompt.empty() || !column(row, prompt))
      return bad(fmt::format("no prompt: neither {} nor {} is there, but {}", chat,
                             prompt.empty() ? "prompt" : prompt, names_of_columns(row)));
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
  return read;
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
