#pragma once
/// A text with {placeholders}, as Python's str.format has them; {{ and }} are braces. Immutable;
/// any thread may render.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

class TextTemplate {
 public:
  /// `known`: the names of the placeholders. Returns Errc::config naming the offset in the
  /// agent_template of an unknown placeholder or of a single brace.
  static Expected<TextTemplate> create(std::string_view text,
                                       std::span<const std::string_view> known);

  /// `values`: of the known placeholders, in their order.
  std::string render(std::span<const std::string> values) const;

 private:
  struct Piece {
    std::string text;
    std::optional<size_t> field = {};  // of the placeholder that follows it
  };
  std::vector<Piece> pieces_;
};

}  // namespace cohort::tasks
