#pragma once
/// Rows of messages for `actor-node tokenize` (docs/chat_templates.md): the text that a chat
/// template makes of them, its ids, and which of them the assistant says. One thread.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/text/chat_encoder.hpp"

namespace cohort {

class ChatRows {
 public:
  using Options = text::ChatEncoder::Options;  // without a folder: no ids
  explicit ChatRows(Options options)
      : has_ids_(options.folder != nullptr), encoder_(std::move(options)) {}

  /// {"messages": …, "tools": …, "documents": …, "kwargs": …, "parse_arguments": false} ->
  /// {"text", "generation", "ids", "mask"}; ids and mask with a folder only. Returns the error of a
  /// template that cannot be read, raises, or takes too long, and of a folder without one.
  Expected<nlohmann::ordered_json> answer(const nlohmann::ordered_json& row);

 private:
  bool has_ids_;
  text::ChatEncoder encoder_;
};

}  // namespace cohort
