#pragma once
/// `traj bisect`: which step of a recorded run a predicate first holds for, and which group and
/// which trajectory of it make it hold, by updates over parts of the step's batch (docs/replay.md).
#include <optional>
#include <string>

#include "runtime/base/error.hpp"

namespace cohort::traj {

struct BisectOptions {
  std::string run;
  std::string where;             // a query over metric["NAME"], the numbers of a row
  std::optional<uint64_t> step;  // none: the first step whose row it holds for
  bool is_json = false;
};

/// Prints the step, the group and the trajectory, and with how many updates they were found.
/// Errc::not_found if the predicate holds for no step, or does not depend on single groups.
Expected<void> bisect(const BisectOptions& options);

}  // namespace cohort::traj
