#include "tools/traj/recompute/step_range.hpp"

#include <charconv>
#include <string_view>

namespace cohort::traj {
namespace {

/// Returns false for what is no number; nothing is no bound.
bool read_number(std::string_view text, std::optional<uint64_t>& number) {
  if (text.empty()) return true;
  uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  number = value;
  return failed == std::errc{} && end == text.data() + text.size();
}

}  // namespace

Expected<StepRange> parse_steps(const std::string& text, const char* option) {
  const std::string_view whole = text;
  const size_t colon = whole.find(':');
  const bool is_one = colon == std::string_view::npos;
  StepRange range;
  const bool is_read = read_number(whole.substr(0, colon), range.first) &&
                       read_number(is_one ? whole : whole.substr(colon + 1), range.last);
  if (!is_read || (range.first && range.last && *range.first > *range.last))
    return Error{
        Errc::invalid_argument,
        std::string(option) + " " + text + ": give A:B, A: or :B with A not after B, or one step"};
  return range;
}

}  // namespace cohort::traj
