#pragma once
/// `--steps A:B`: a range of steps, both ends included.
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/error.hpp"

namespace cohort::traj {

/// An end that is not given has no bound.
struct StepRange {
  std::optional<uint64_t> first, last;
  bool contains(uint64_t step) const {
    return (!first || step >= *first) && (!last || step <= *last);
  }
};

/// Parses "A:B", "A:", ":B" or "A"; an empty text is all steps. Returns Errc::invalid_argument.
Expected<StepRange> parse_steps(const std::string& text);

}  // namespace cohort::traj
