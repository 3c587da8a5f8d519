#pragma once
/// `A:B` in options: a range of steps, both ends included.
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

/// Parses "A:B", "A:", ":B" or "A"; an empty text is all steps. Returns Errc::invalid_argument,
/// which names the option.
Expected<StepRange> parse_steps(const std::string& text, const char* option = "--steps");

}  // namespace cohort::traj
