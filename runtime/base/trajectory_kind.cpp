#include "runtime/base/trajectory_kind.hpp"

#include <fmt/format.h>

#include <iterator>

namespace cohort {

std::string_view to_string(TrajectoryKind kind) {
  constexpr std::string_view k_names[] = {"train", "val", "val_greedy", "warm_start"};
  const auto number = static_cast<size_t>(kind);
  return number < std::size(k_names) ? k_names[number] : "unknown";
}

std::string to_string(const TrajectoryKey& key) {
  return fmt::format("{}/step {}/group {}/index {}", to_string(key.kind), key.step, key.group,
                     key.index);
}

}  // namespace cohort
