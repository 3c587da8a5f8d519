#include "runtime/tasks/action_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/base/text.hpp"

namespace cohort::tasks {
namespace {

constexpr std::array<std::string_view, 2> k_removed_literals{"<|im_start|>", "<|im_end|>"};

std::string without_literals(std::string_view text) {
  std::string result(text);
  for (std::string_view literal : k_removed_literals) {
    for (size_t at = result.find(literal); at != std::string::npos; at = result.find(literal, at))
      result.erase(at, literal.size());
  }
  return result;
}

bool is_same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return to_lower(x) == to_lower(y); });
}

}  // namespace

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
  const std::string text = without_literals(response);
  std::optional<Pattern::Match> match = pattern_.search(text);
  if (!match || !match->back()) return std::nullopt;
  std::string_view word = trim(*match->back());
  for (size_t i = 0; i < names_.size(); ++i) {
    if (is_same_word(word, names_[i])) return i;
  }
  return std::nullopt;
}

}  // namespace cohort::tasks
