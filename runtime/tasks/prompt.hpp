#pragma once
/// Turns observations into messages, in ROLL's templates. The first turn is a system message (left
/// out if its template is empty) and a user message: the environment's instructions, a newline, the
/// rendered agent template. Later turns are a user message with the rendered template alone.
/// Earlier turns are never rendered or tokenised again. Immutable; any thread may render.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/tasks/dataset.hpp"
#include "runtime/tasks/text_template.hpp"

namespace cohort::tasks {

inline constexpr std::string_view k_turn_begin = "<|im_start|>";
inline constexpr std::string_view k_turn_end = "<|im_end|>";

struct PromptOptions {
  std::string system_template;  // ROLL's agent_system_template; no placeholders
  std::string agent_template =
      "{observation}\n";           // placeholders as in PromptFields; {{ and }} are braces
  bool shows_instructions = true;  // the environment's instructions in the first turn
};

/// What an agent_template may show. {suffix}, as ROLL has it, shows nothing: what a world adds to
/// an observation is its last line.
inline constexpr std::array<std::string_view, 6> k_placeholders{
    "turn_idx", "observation", "actions_left", "max_response_length", "event", "suffix"};

/// Values of the placeholders.
struct PromptFields {
  int turn_idx = 1;  // from 1
  std::string_view observation = {};
  int actions_left = 0;
  int max_response_length = 0;  // [tokens] max_tokens_per_step
  std::string_view event = {};  // effect of the last answer
};

class PromptTemplate {
 public:
  /// Returns Errc::config if a template holds an unknown placeholder or a single brace.
  static Expected<PromptTemplate> create(PromptOptions options);

  std::vector<ChatMessage> first_turn(std::string_view instructions,
                                      const PromptFields& fields) const;
  /// Goes on after an answer.
  ChatMessage next_turn(const PromptFields& fields) const { return {"user", render(fields)}; }
  /// Returns the agent template with its placeholders filled in.
  std::string render(const PromptFields& fields) const;

 private:
  PromptTemplate(PromptOptions options, TextTemplate agent)
      : options_(std::move(options)), agent_(std::move(agent)) {}

  PromptOptions options_;
  TextTemplate agent_;
};

}  // namespace cohort::tasks
