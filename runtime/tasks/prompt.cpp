#include "runtime/tasks/prompt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace cohort::tasks {
namespace {

constexpr std::array<std::string_view, 5> k_field_names{"turn_idx", "observation", "actions_left",
                                                        "max_response_length", "event"};

}  // namespace

Expected<PromptTemplate> PromptTemplate::create(PromptOptions options) {
  PromptTemplate prompt(std::move(options));
  COHORT_TRY(prompt.compile());
  return prompt;
}

Expected<void> PromptTemplate::compile() {
  const std::string& text = options_.agent_template;
  std::string literal;
  for (size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c != '{' && c != '}') {
      literal += c;
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == c) {
      literal += c;
      ++at;
      continue;
    }
    size_t end = c == '{' ? text.find('}', at) : std::string::npos;
    if (end == std::string::npos)
      return Error{Errc::config,
                   fmt::format("agent_template at offset {}: single '{}'; write it twice for the "
                               "character itself",
                               at, c)};
    std::string_view name = std::string_view(text).substr(at + 1, end - at - 1);
    auto known = std::find(k_field_names.begin(), k_field_names.end(), name);
    if (known == k_field_names.end())
      return Error{Errc::config,
                   fmt::format("agent_template at offset {}: unknown placeholder {{{}}}; known: {}",
                               at, name, fmt::join(k_field_names, ", "))};
    pieces_.push_back(
        {std::exchange(literal, {}), static_cast<size_t>(known - k_field_names.begin())});
    at = end;
  }
  pieces_.push_back({std::move(literal)});
  return {};
}

std::string PromptTemplate::render(const PromptFields& fields) const {
  const std::array<std::string, k_field_names.size()> values{
      std::to_string(fields.turn_idx), std::string(fields.observation),
      std::to_string(fields.actions_left), std::to_string(fields.max_response_length),
      std::string(fields.event)};
  std::string text;
  for (const Piece& piece : pieces_) {
    text += piece.text;
    if (piece.field) text += values[*piece.field];
  }
  return text;
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
