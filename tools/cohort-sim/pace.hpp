#pragma once
/// What generation beside training is worth on the virtual clock: the same job, synchronous and
/// ahead (docs/simulation.md). One thread.
#include <cstdint>
#include <string>
#include <vector>

namespace cohort::sim {

struct Pace {
  std::string mode;
  double trajectories_per_s = 0;  // trained, in virtual seconds between the first and last update
  double over_sync = 1;
  std::string violation;  // label; empty: none
};
/// Answer lengths are log-normal with a 99th percentile of ten times the median; an update takes
/// about as long as the rollouts need for a batch. `seeds` runs of each mode, from `first_seed`.
std::vector<Pace> measure_pace(uint64_t first_seed, uint64_t seeds);

}  // namespace cohort::sim
