#include "runtime/tasks/prompt_filter.hpp"

#include <fmt/format.h>

namespace cohort::tasks {

Expected<Truncation> truncation_of(std::string_view name) {
  if (name == "error") return Truncation::error;
  if (name == "left") return Truncation::left;
  if (name == "right") return Truncation::right;
  if (name == "middle") return Truncation::middle;
  return Error{Errc::config,
               fmt::format("truncation is \"{}\": error, left, right or middle is expected", name)};
}

Expected<std::vector<int32_t>> fit_prompt(std::vector<int32_t> tokens, size_t max,
                                          Truncation truncation, std::string_view row_id) {
  if (max == 0)
    return Error{Errc::invalid_argument, fmt::format("{}: a prompt of 0 tokens", row_id)};
  if (tokens.size() <= max) return tokens;
  const auto excess = static_cast<ptrdiff_t>(tokens.size() - max);
  switch (truncation) {
    case Truncation::error:
      return Error{Errc::config,
                   fmt::format("{}: the prompt has {} tokens, more than the {} allowed; raise the "
                               "prompt length, filter overlong prompts, or choose truncation left, "
                               "right or middle",
                               row_id, tokens.size(), max)};
    case Truncation::left:
      tokens.erase(tokens.begin(), tokens.begin() + excess);
      break;
    case Truncation::right:
      tokens.resize(max);
      break;
    case Truncation::middle: {
      const auto head = tokens.begin() + static_cast<ptrdiff_t>(max / 2);
      tokens.erase(head, head + excess);
      break;
    }
  }
  return tokens;
}

}  // namespace cohort::tasks
