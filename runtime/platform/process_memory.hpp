#pragma once
/// What this process takes of the host's memory. Thread-safe; Linux.
#include <cstdint>

namespace cohort::platform {

/// Returns the resident bytes of this process that belong to no file and are not shared; 0 if
/// /proc/self/statm cannot be read.
uint64_t anonymous_bytes();

}  // namespace cohort::platform
