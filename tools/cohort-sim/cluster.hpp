#pragma once
/// A whole run in miniature, from one seed (docs/simulation.md). One thread. Bound: one run.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/cohort-sim/sim_job.hpp"
#include "tools/cohort-sim/world.hpp"

namespace cohort::sim {

struct Outcome {
  uint64_t seed = 0;
  Violation violation;             // label empty: none
  std::vector<std::string> trace;  // of a violation
  int64_t virtual_ms = 0;
  uint64_t events = 0, faults = 0;
  uint64_t digest = 0;   // equal for equal runs
  uint64_t spans = 0;    // trained trajectories with tokens of several policies
  int64_t steps_ms = 0;  // from the first update to the last
};

struct SimOptions {
  Plant plant = Plant::none;
  std::optional<uint32_t> steps_ahead;  // none: 0, 1 and 4 in turn, by seed
  bool is_loud = false;                 // prints the whole trace
  bool is_flowing = false;              // with steps_ahead: fully_async
  std::optional<Job> job = {};          // this one, without a fault
  bool is_scheduled = false;            // with is_flowing: FLOWING-2
};
/// Runs the seed to its end.
Outcome simulate(uint64_t seed, const SimOptions& options = {});

}  // namespace cohort::sim
