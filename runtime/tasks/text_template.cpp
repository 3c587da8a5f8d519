#include "runtime/tasks/text_template.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cohort::tasks {

Expected<TextTemplate> TextTemplate::create(std::string_view text,
                                            std::span<const std::string_view> known) {
  TextTemplate compiled;
  std::string literal;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c != '{' && c != '}') {
      literal += c;
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == c) {
      literal += c;
      ++at;
      continue;
    }
    const size_t end = c == '{' ? text.find('}', at) : std::string_view::npos;
    if (end == std::string_view::npos)
      return Error{Errc::config,
                   fmt::format("agent_template at offset {}: single '{}'; write it twice for the "
                               "character itself",
                               at, c)};
    const std::string_view name = text.substr(at + 1, end - at - 1);
    const auto found = std::ranges::find(known, name);
    if (found == known.end())
      return Error{Errc::config,
                   fmt::format("agent_template at offset {}: unknown placeholder {{{}}}; known: {}",
                               at, name, fmt::join(known, ", "))};
    compiled.pieces_.push_back(
        {std::exchange(literal, {}), static_cast<size_t>(found - known.begin())});
    at = end;
  }
  compiled.pieces_.push_back({std::move(literal)});
  return compiled;
}

std::string TextTemplate::render(std::span<const std::string> values) const {
  std::string text;
  for (const Piece& piece : pieces_) {
    text += piece.text;
    if (piece.field) text += values[*piece.field];
  }
  return text;
}

}  // namespace cohort::tasks
