#include "runtime/tasks/step_prompt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort::tasks {

Expected<StepPrompt> StepPrompt::create(StepPromptOptions options) {
  COHORT_ASSIGN(TextTemplate agent,
                TextTemplate::create(options.agent_template, k_step_placeholders));
  return StepPrompt(std::move(options), std::move(agent));
}

std::string StepPrompt::shown(std::string_view instructions, size_t turn,
                              std::string_view observation) const {
  const bool has_instructions =
      options_.history == StepHistory::observations && turn == 0 && !instructions.empty();
  return has_instructions ? fmt::format("{}\n{}", instructions, observation)
                          : std::string(observation);
}

std::vector<ChatMessage> StepPrompt::turn(std::string_view instructions,
                                          std::span<const PlayedTurn> played,
                                          std::string_view observation,
                                          int max_response_length) const {
  const size_t told = std::min(played.size(), std::max<size_t>(options_.history_length, 1) - 1);
  std::string history;
  for (size_t turn = played.size() - told; turn < played.size(); ++turn) {
    const std::string text = shown(instructions, turn, played[turn].observation);
    if (options_.history == StepHistory::observations)
      history += (history.empty() ? "" : "\n") + text;
    else
      history += fmt::format("{}(step:{}, observation: {}, action: {})",
                             history.empty() ? "" : ", ", turn + 1, text, played[turn].action);
  }
  const std::array<std::string, k_step_placeholders.size()> values{
      std::string(instructions),          std::move(history),
      std::to_string(played.size()),      std::to_string(told),
      std::to_string(played.size() + 1),  shown(instructions, played.size(), observation),
      std::to_string(max_response_length)};
  std::vector<ChatMessage> messages;
  if (!options_.system_template.empty()) messages.push_back({"system", options_.system_template});
  messages.push_back({"user", agent_.render(values)});
  return messages;
}

}  // namespace cohort::tasks
