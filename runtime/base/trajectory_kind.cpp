#include "runtime/base/trajectory_kind.hpp"

#include <fmt/format.h>

namespace cohort {

std::string_view to_string(TrajectoryKind kind) {
  switch (kind) {
    case TrajectoryKind::train:
      return "train";
    case TrajectoryKind::val:
      return "val";
    case TrajectoryKind::val_greedy:
      return "val_greedy";
    case TrajectoryKind::warm_start:
      return "warm_start";
  }
  return "unknown";
}

std::string to_string(const TrajectoryKey& key) {
  return fmt::format("{}/step {}/group {}/index {}", to_string(key.kind), key.step, key.group,
                     key.index);
}

}  // namespace cohort
