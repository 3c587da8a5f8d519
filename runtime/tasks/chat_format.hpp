#pragma once
/// How a dialogue becomes the ids that the policy reads, and how an answer ends: the chat template
/// of a folder, or ChatML for the words of the demos. Ids are only ever appended: an answer is
/// never made to text and back. Immutable; any thread.
#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/tasks/dataset.hpp"
#include "runtime/tasks/tokenizer.hpp"

namespace cohort::tasks {

class FolderTokenizer;
struct WrittenDialogue;

class ChatFormat {
 public:
  ChatFormat() = default;
  ChatFormat(const ChatFormat&) = delete;
  ChatFormat& operator=(const ChatFormat&) = delete;
  virtual ~ChatFormat() = default;

  /// Returns the text of a dialogue, up to where the assistant goes on. Errors as opening().
  virtual Expected<std::string> text(std::span<const ChatMessage> dialogue) const = 0;
  /// Returns its ids. Text of a message that looks like a special token makes no special id where
  /// the tokenizer tells them apart. Errc::invalid_argument: the template refuses the dialogue, or
  /// a character has no token.
  virtual Expected<std::vector<int32_t>> opening(std::span<const ChatMessage> dialogue) const = 0;
  /// Returns the ids of a dialogue that another program wrote, with calls and tools of its own.
  /// Errors as opening().
  virtual Expected<std::vector<int32_t>> opening(const WrittenDialogue& dialogue) const = 0;
  /// Returns the ids behind `answer`: the end of its turn, if it has none yet (ROLL always adds
  /// one, which doubles it), `messages` (one, or several of role tool), and all up to where the
  /// assistant goes on. An answer that calls tools may end by another id than the template writes
  /// (Llama 3's <|eom_id|>). Errors as opening().
  virtual Expected<std::vector<int32_t>> following(std::span<const ChatMessage> messages,
                                                   std::string_view answer) const = 0;
  Expected<std::vector<int32_t>> following(const ChatMessage& message,
                                           std::string_view answer) const {
    return following(std::span(&message, 1), answer);
  }
  /// Returns the ids that end an answer; the first is the one that following() writes.
  virtual std::span<const int32_t> answer_ends() const = 0;

  /// Returns whether a decoded answer ends itself.
  bool is_ended(std::string_view answer) const { return !end_of(answer).empty(); }
  std::string_view without_end(std::string_view answer) const;
  /// Returns the text of the usual end, for answers that nobody sampled.
  const std::string& usual_end() const { return end_texts_.front(); }

 protected:
  /// Returns the end that `answer` has, or nothing.
  std::string_view end_of(std::string_view answer) const;
  std::vector<std::string> end_texts_;  // of answer_ends()
};

struct ChatmlOptions {
  bool is_plain = false;             // ROLL's templates empty and base: the contents as they are
  std::vector<int32_t> more_ends{};  // ids that end an answer besides <|im_end|>
  std::string tools = {};            // JSON list of schemas that the prompt shows; empty: none
};

/// ChatML: each message between <|im_start|>role and <|im_end|>, then the assistant's opening.
/// Tools are shown behind the system message and tools' messages are a user's, in <tool_response>,
/// as Qwen2.5 has both. Special tokens in messages are what they say, but in those of tools: they
/// are not trusted, and "<|" becomes "< |" there. Returns Errc::config if <|im_end|> is no token of
/// the vocabulary and needed: messages are written with it, or nothing else ends an answer; or if
/// tools are to be shown without markup.
Expected<std::shared_ptr<const ChatFormat>> make_chatml(std::shared_ptr<const Tokenizer> tokenizer,
                                                        ChatmlOptions options = {});

struct FolderChatOptions {
  /// JSON object: more variables of the template, e.g. {"enable_thinking": true}.
  std::string kwargs = {};
  /// What strftime_now tells; without it a template that asks is refused.
  std::optional<std::tm> date = {};
  std::string tools = {};  // JSON list of schemas that the template shows; empty: none
};

/// Returns `kwargs` (a JSON object) with what ROLL's template of this name sets besides, where the
/// user does not: qwen3 thinks. REQUIRES: an object.
std::string template_variables(std::string_view template_name, const std::string& kwargs);

/// The chat template of the tokenizer's folder. Returns Errc::config naming the folder if it has no
/// template, if the template refuses a plain question, an answer and another question, if nothing
/// says how an answer ends, or if it has no place for the tools that are to be shown.
Expected<std::shared_ptr<const ChatFormat>> make_folder_chat(
    std::shared_ptr<const FolderTokenizer> tokenizer, const FolderChatOptions& options);

}  // namespace cohort::tasks
