#include "runtime/tasks/chat_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/tasks/prompt.hpp"

namespace cohort::tasks {
namespace {

std::string chatml_message(const ChatMessage& message) {
  return fmt::format("{}{}\n{}{}\n", k_turn_begin, message.role, message.content, k_turn_end);
}

std::string assistant_header() { return fmt::format("{}assistant\n", k_turn_begin); }

class Chatml final : public ChatFormat {
 public:
  Chatml(std::shared_ptr<const Tokenizer> tokenizer, bool is_plain, std::vector<int32_t> ends)
      : tokenizer_(std::move(tokenizer)), is_plain_(is_plain), ends_(std::move(ends)) {
    for (const int32_t id : ends_) end_texts_.push_back(tokenizer_->decode({&id, 1}));
  }

  Expected<std::string> text(std::span<const ChatMessage> dialogue) const override {
    std::string text;
    for (const ChatMessage& each : dialogue)
      text += is_plain_ ? each.content : chatml_message(each);
    return is_plain_ ? text : text + assistant_header();
  }
  Expected<std::vector<int32_t>> opening(std::span<const ChatMessage> dialogue) const override {
    COHORT_ASSIGN(const std::string all, text(dialogue));
    return tokenizer_->encode(all);
  }
  Expected<std::vector<int32_t>> following(const ChatMessage& message,
                                           std::string_view answer) const override {
    if (is_plain_) return tokenizer_->encode(message.content);
    const std::string_view end = is_ended(answer) ? "" : k_turn_end;
    return tokenizer_->encode(
        fmt::format("{}\n{}{}", end, chatml_message(message), assistant_header()));
  }
  std::span<const int32_t> answer_ends() const override { return ends_; }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool is_plain_;
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
  std::vector<int32_t> ends;
  if (const std::optional<int32_t> end = tokenizer->token_id(k_turn_end)) ends.push_back(*end);
  const bool is_needed = !options.is_plain || options.more_ends.empty();
  if (ends.empty() && is_needed)
    return Error{Errc::config,
                 fmt::format("{} is no token of the vocabulary: no answer would end", k_turn_end)};
  for (const int32_t id : options.more_ends)
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  return std::shared_ptr<const ChatFormat>(
      std::make_shared<const Chatml>(std::move(tokenizer), options.is_plain, std::move(ends)));
}

}  // namespace cohort::tasks
