#pragma once
/// Rows of messages for `actor-node tokenize` (docs/chat_templates.md): the text that a chat
/// template makes of them, its ids, and which of them the assistant says. One thread.
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/text/template/chat_template.hpp"
#include "runtime/text/tokenizer_folder.hpp"

namespace cohort {

class ChatRows {
 public:
  struct Options {
    const text::TokenizerFolder* folder = nullptr;  // outlives the rows; null: no ids
    std::optional<std::string> source{};            // in place of the folder's templates
    std::optional<std::string> bos{}, eos{};        // in place of the folder's
    std::tm local_time{};                           // what strftime_now tells
  };
  explicit ChatRows(Options options) : options_(std::move(options)) {}

  /// {"messages": …, "tools": …, "documents": …, "kwargs": …, "parse_arguments": false} ->
  /// {"text", "generation", "ids", "mask"}; ids and mask with a folder only. Returns the error of a
  /// template that cannot be read, raises, or takes too long, and of a folder without one.
  Expected<nlohmann::ordered_json> answer(const nlohmann::ordered_json& row);

 private:
  Expected<text::ChatTemplate> template_for(bool has_tools);

  Options options_;
  std::map<std::string, text::ChatTemplate, std::less<>> compiled_;  // by source
};

}  // namespace cohort
