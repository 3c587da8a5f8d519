#pragma once
/// Bugs that the simulation and the tests put into the real machines, to prove that they would be
/// found. An option of the machines; no production code sets it.
#include <cstdint>

namespace cohort::plan {

enum class Plant : uint8_t {
  none,
  dedupe_off,            // Collector: a repeated trajectory is accepted again (FLOW-1)
  cancel_by_group,       // Run: a cancel names the group (its number is 0), not the lease
  reseat_takes_back,     // membership: a card that is back counts as seated
  version_before_whole,  // VersionTable: a version is served before it is whole (PLACE-5)
  staleness_off_by_one,  // Run: a step is admitted one version too early (FLOW-3)
  refill_by_arrival,     // Refill: the next number goes to whichever lane asks (REFILL-1)
};

}  // namespace cohort::plan
