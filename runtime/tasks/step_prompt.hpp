#pragma once
/// The prompt of a turn that is asked anew, as ROLL's step managers do: a system message (left out
/// if its template is empty) and a user message that tells the last turns. The policy reads nothing
/// else, so that a long game needs no long context, and each turn is a sample of its own (GiGPO,
/// arXiv 2505.10978). Immutable; any thread may render.
/// Source: roll/pipeline/agentic/env_manager/{step_env_manager,step_concat_env_manager}.py.
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/tasks/dataset.hpp"
#include "runtime/tasks/text_template.hpp"

namespace cohort::tasks {

/// What an agent_template may show of a turn that is asked anew.
inline constexpr std::array<std::string_view, 7> k_step_placeholders{
    "env_instruction",    "history",      "step_count",
    "history_length",     "current_step", "current_observation",
    "max_response_length"};

/// How {history} tells the turns before.
enum class StepHistory {
  actions,      // StepEnvManager: (step:1, observation: …, action: …), (step:2, …
  observations  // StepConcatEnvManager: a line each; the first one has the instructions, too
};

struct StepPromptOptions {
  std::string system_template;
  std::string agent_template;
  StepHistory history = StepHistory::actions;
  /// ROLL's history_length, which counts the turn that is asked: {history} has one less. 0: none.
  size_t history_length = 0;
};

/// A turn that was answered.
struct PlayedTurn {
  std::string observation, action;
};

class StepPrompt {
 public:
  /// Returns Errc::config if a template holds an unknown placeholder or a single brace.
  static Expected<StepPrompt> create(StepPromptOptions options);

  /// Returns the prompt behind the turns that were `played`. `max_response_length` [tokens]
  std::vector<ChatMessage> turn(std::string_view instructions, std::span<const PlayedTurn> played,
                                std::string_view observation, int max_response_length) const;

 private:
  StepPrompt(StepPromptOptions options, TextTemplate agent)
      : options_(std::move(options)), agent_(std::move(agent)) {}
  std::string shown(std::string_view instructions, size_t turn, std::string_view observation) const;

  StepPromptOptions options_;
  TextTemplate agent_;
};

}  // namespace cohort::tasks
