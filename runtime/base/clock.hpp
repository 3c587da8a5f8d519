#pragma once
/// Time as a value: pure code takes `now` as an argument; only mains and actors call now_seconds().
#include <chrono>
#include <cstdint>

namespace cohort {

/// Returns monotonic seconds since an arbitrary origin of this process.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns wall-clock microseconds since the Unix epoch.
inline int64_t wall_time_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace cohort
