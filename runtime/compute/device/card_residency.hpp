#pragma once
/// What an onload, offload, init_cache or free_cache did: measured, for the ledger. Shared by the
/// training and the generation engine. Plain value.
#include <cstdint>

namespace cohort::compute {

struct Residency {
  uint64_t bytes_on_card = 0;  // of this object, after the command
  uint64_t bytes_moved = 0;    // between host and card (0 for a cache: nothing is copied)
  double seconds = 0;
};

}  // namespace cohort::compute
