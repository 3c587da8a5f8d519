#include "runtime/tasks/data_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "runtime/tasks/row_json.hpp"

namespace cohort::tasks {
namespace {

using Json = RowJson;

constexpr double k_exact_max = 9007199254740992.0;  // 2^53: above it a number may have been rounded
constexpr std::array<std::string_view, 4> k_roles{"system", "user", "assistant", "tool"};
constexpr std::array<const char*, 3> k_media{"images", "videos", "audios"};
constexpr std::array<const char*, 3> k_answer_columns{"answer", "response", "solution"};
constexpr std::string_view k_extra_answer = "extra_info.answer";

/// Text as it is, numbers as they are written, lists and objects as JSON.
Expected<std::string> text_of(const Json& value, std::string_view name) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float() && !(std::abs(value.get<double>()) < k_exact_max))
    return bad(fmt::format("{} is a number that may have lost digits: write it as a text", name));
  return value.dump();
}

/// Reads a column that has to be a text if it is there.
Expected<std::string> plain_text(const Json& row, const std::string& name) {
  const Json* value = column(row, name);
  if (!value) return std::string();
  if (!value->is_string()) return bad(fmt::format("{} is {}, not a text", name, kind_of(*value)));
  return value->get<std::string>();
}

Expected<ChatMessage> read_message(const Json& value, const std::string& name) {
  if (!value.is_object())
    return bad(fmt::format("{} is {}, not an object with role and content", name, kind_of(value)));
  ChatMessage message;
  for (auto [key, target] :
       {std::pair{"role", &message.role}, std::pair{"content", &message.content}}) {
    const Json* part = column(value, key);
    if (!part) return bad(fmt::format("{} has no {}", name, key));
    if (!part->is_string())
      return bad(fmt::format("{}.{} is {}, not a text (only text is supported)", name, key,
                             kind_of(*part)));
    *target = part->get<std::string>();
  }
  if (std::find(k_roles.begin(), k_roles.end(), message.role) == k_roles.end())
    return bad(fmt::format("{}.role is \"{}\": system, user, assistant or tool is expected", name,
                           message.role));
  if (message.content.empty()) return bad(fmt::format("{}.content is empty", name));
  return message;
}

Expected<std::vector<ChatMessage>> read_messages(const Json& list, const std::string& name) {
  if (!list.is_array())
    return bad(fmt::format("{} is {}: a list of messages, or its JSON as a text, is expected", name,
                           kind_of(list)));
  if (list.empty()) return bad(fmt::format("{} is an empty list", name));
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i < list.size(); ++i) {
    COHORT_ASSIGN(ChatMessage message, read_message(list[i], fmt::format("{}[{}]", name, i)));
    messages.push_back(std::move(message));
  }
  return messages;
}

/// The conversation, from the first of the two columns that the row has.
Expected<std::vector<ChatMessage>> read_conversation(const Json& row, const DatasetOptions& options,
                                                     std::string& used_column) {
  used_column = options.messages_key;
  if (const Json* value = column(row, options.messages_key)) {
    if (!value->is_string()) return read_messages(*value, options.messages_key);
    auto list = json_of(value->get_ref<const std::string&>());
    if (!list) return list.error().with_context(options.messages_key + " is a text, but");
    return read_messages(*list, options.messages_key);
  }
  used_column = options.prompt_key;
  const Json* value = column(row, options.prompt_key);
  if (!value)
    return bad(fmt::format("no prompt: neither {} nor {} is there, but {}", options.messages_key,
                           options.prompt_key, names_of_columns(row)));
  if (!value->is_string()) return read_messages(*value, options.prompt_key);
  std::string text = value->get<std::string>();
  if (text.empty()) return bad(options.prompt_key + " is empty");
  return std::vector<ChatMessage>{{"user", std::move(text)}};
}

Expected<std::string> read_ground_truth(const Json& row) {
  if (const Json* model = column(row, "reward_model")) {
    if (!model->is_object())
      return bad(fmt::format("reward_model is {}, not an object", kind_of(*model)));
    if (const Json* truth = column(*model, "ground_truth"))
      return text_of(*truth, "reward_model.ground_truth");
  }
  if (const Json* truth = column(row, "ground_truth")) return text_of(*truth, "ground_truth");
  return std::string();
}

Expected<std::string> read_answer(const Json& row, const DatasetOptions& options) {
  if (!options.answer_key.empty()) {
    const Json* value = column(row, options.answer_key);
    return value ? text_of(*value, options.answer_key) : Expected<std::string>(std::string());
  }
  if (const Json* extra = column(row, "extra_info"); extra && extra->is_object()) {
    if (const Json* value = column(*extra, "answer")) return text_of(*value, k_extra_answer);
  }
  for (const char* name : k_answer_columns) {
    if (const Json* value = column(row, name)) return text_of(*value, name);
  }
  return std::string();
}

Expected<void> read_labels(const Json& row, const DatasetOptions& options, Sample& sample) {
  for (const std::string& name : {options.source_key, options.tag_key, std::string("source")}) {
    if (!sample.data_source.empty()) break;
    COHORT_ASSIGN(sample.data_source, plain_text(row, name));
  }
  COHORT_ASSIGN(sample.domain, plain_text(row, "domain"));
  return {};
}

/// The rest of the row without the fields of Sample.
std::string columns_of(Json row, const std::string& used_column) {
  for (const char* name : {"data_source", "domain", "ground_truth"}) row.erase(name);
  row.erase(used_column);
  if (auto model = row.find("reward_model"); model != row.end()) {
    if (model->is_object()) model->erase("ground_truth");
    if (model->empty()) row.erase("reward_model");
  }
  return row.dump();
}

/// A conversation that ends in the assistant's words is one with its answer.
Expected<void> split_answer(Sample& sample) {
  if (sample.messages.back().role == "assistant") {
    sample.answer = std::move(sample.messages.back().content);
    sample.messages.pop_back();
  }
  bool has_question = std::any_of(sample.messages.begin(), sample.messages.end(),
                                  [](const ChatMessage& m) { return m.role == "user"; });
  if (!has_question) return bad("the conversation has no message of the user");
  return {};
}

}  // namespace

Expected<Sample> read_row(std::string_view line, const DatasetOptions& options) {
  COHORT_ASSIGN(Json row, parse_row(line));
  for (const char* media : k_media) {
    const Json* value = column(row, media);
    if (value && !value->empty())
      return bad(fmt::format("{} is not empty: only text is supported", media));
  }
  Sample sample;
  std::string used_column;
  COHORT_ASSIGN(sample.messages, read_conversation(row, options, used_column));
  COHORT_TRY(read_labels(row, options, sample));
  COHORT_ASSIGN(sample.ground_truth, read_ground_truth(row));
  COHORT_ASSIGN(sample.answer, read_answer(row, options));
  COHORT_TRY(split_answer(sample));
  sample.columns = columns_of(std::move(row), used_column);
  return sample;
}

bool is_answer_column(std::string_view name) {
  return name == k_extra_answer ||
         std::ranges::find(k_answer_columns, name) != k_answer_columns.end();
}

}  // namespace cohort::tasks
