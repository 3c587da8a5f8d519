#pragma once
/// Turns observations into the text the model reads, in ROLL's templates and the ChatML format:
///   <|im_start|>system\n…<|im_end|>\n<|im_start|>user\n…<|im_end|>\n<|im_start|>assistant\n
/// The first turn is a system message (left out if its template is empty) and a user message: the
/// environment's instructions, a newline, the rendered agent template. Later turns are a user
/// message with the rendered template alone. Earlier turns are never rendered or tokenised again.
/// Immutable; any thread may render.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/tasks/dataset.hpp"

namespace cohort::tasks {

inline constexpr std::string_view k_turn_begin = "<|im_start|>";
inline constexpr std::string_view k_turn_end = "<|im_end|>";

struct PromptOptions {
  std::string system_template;  // ROLL's agent_system_template; no placeholders
  std::string agent_template =
      "{observation}\n";           // placeholders as in PromptFields; {{ and }} are braces
  bool shows_instructions = true;  // the environment's instructions in the first turn
};

/// Values of the placeholders {turn_idx} {observation} {actions_left} {max_response_length}
/// {event}.
struct PromptFields {
  int turn_idx = 1;  // from 1
  std::string_view observation = {};
  int actions_left = 0;
  int max_response_length = 0;  // [tokens] max_tokens_per_step
  std::string_view event = {};  // effect of the last answer
};

/// Returns the prompt of a conversation that the assistant is to go on with. ChatML: each message
/// between <|im_start|>role and <|im_end|>, then the assistant's opening. `is_plain` (ROLL's
/// templates empty and base): the contents as they are, one after another.
std::string render_chat(const std::vector<ChatMessage>& messages, bool is_plain);

class PromptTemplate {
 public:
  /// Returns Errc::config if a template holds an unknown placeholder or a single brace.
  static Expected<PromptTemplate> create(PromptOptions options);

  std::string first_turn(std::string_view instructions, const PromptFields& fields) const;
  /// Goes on after an answer. `is_answer_ended`: the sampled answer already ends in <|im_end|>;
  /// otherwise the turn is closed here, once (ROLL always adds an end token, which doubles it after
  /// a model that stopped).
  std::string next_turn(const PromptFields& fields, bool is_answer_ended) const;
  /// Returns the agent template with its placeholders filled in.
  std::string render(const PromptFields& fields) const;

 private:
  struct Piece {
    std::string text;
    std::optional<size_t> field = {};  // of the placeholder that follows it
  };
  explicit PromptTemplate(PromptOptions options) : options_(std::move(options)) {}
  Expected<void> compile();

  PromptOptions options_;
  std::vector<Piece> pieces_;
};

}  // namespace cohort::tasks
