#include "runtime/tasks/prompt.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace cohort::tasks {

Expected<PromptTemplate> PromptTemplate::create(PromptOptions options) {
  COHORT_ASSIGN(TextTemplate agent, TextTemplate::create(options.agent_template, k_placeholders));
  return PromptTemplate(std::move(options), std::move(agent));
}

std::string PromptTemplate::render(const PromptFields& fields) const {
  const std::array<std::string, k_placeholders.size()> values{
      std::to_string(fields.turn_idx),     std::string(fields.observation),
      std::to_string(fields.actions_left), std::to_string(fields.max_response_length),
      std::string(fields.event),           ""};
  return agent_.render(values);
}

std::vector<ChatMessage> PromptTemplate::first_turn(std::string_view instructions,
                                                    const PromptFields& fields) const {
  std::vector<ChatMessage> messages;
  if (!options_.system_template.empty()) messages.push_back({"system", options_.system_template});
  std::string user = render(fields);
  if (options_.shows_instructions && !instructions.empty())
    user = fmt::format("{}\n{}", instructions, user);
  messages.push_back({"user", std::move(user)});
  return messages;
}

}  // namespace cohort::tasks
