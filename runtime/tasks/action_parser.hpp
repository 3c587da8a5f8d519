#pragma once
/// Reads the action out of a model's answer as ROLL does: the literals <|im_start|> and <|im_end|>
/// are removed, the first match of the pattern ('.' matches newlines) is taken, its last group
/// trimmed and looked up without regard to case. Anything else is an invalid answer. Immutable; any
/// thread may parse.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/tasks/pattern.hpp"

namespace cohort::tasks {

class ActionParser {
 public:
  /// `names` are the action words; the index of a name is its action.
  /// Returns Errc::invalid_argument if the pattern does not compile or has no group.
  static Expected<ActionParser> create(std::string_view pattern, std::vector<std::string> names);

  /// Returns the index of the action in `response`, or nothing if it holds no valid one.
  std::optional<size_t> parse(std::string_view response) const;
  const std::vector<std::string>& names() const { return names_; }

 private:
  ActionParser(Pattern pattern, std::vector<std::string> names)
      : pattern_(std::move(pattern)), names_(std::move(names)) {}

  Pattern pattern_;
  std::vector<std::string> names_;
};

}  // namespace cohort::tasks
