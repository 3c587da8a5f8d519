#include "runtime/tasks/action_parser.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/tasks/scorers/answer_text.hpp"

namespace cohort::tasks {
Expected<ActionParser> ActionParser::create(std::string_view pattern,
                                            std::vector<std::string> names) {
  COHORT_ASSIGN(Pattern compiled, Pattern::compile(pattern));
  if (compiled.group_count() == 0)
    return Error{
        Errc::invalid_argument,
        fmt::format("action pattern '{}': needs a group (...) around the action", pattern)};
  return ActionParser(std::move(compiled), std::move(names));
}

std::optional<size_t> ActionParser::parse(std::string_view response) const {
  const std::string text = replace_all(replace_all(response, "<|im_start|>", ""), "<|im_end|>", "");
  std::optional<Pattern::Match> match = pattern_.search(text);
  if (!match || !match->back()) return std::nullopt;
  std::string_view word = trim(*match->back());
  for (size_t i = 0; i < names_.size(); ++i) {
    if (is_same_word(word, names_[i])) return i;
  }
  return std::nullopt;
}

}  // namespace cohort::tasks
