#pragma once
/// COHORT_CHECK: a broken invariant ends the process, in every build type. The process is the
/// restart unit.
#include <string_view>

namespace cohort {
/// Writes "check failed: …" with file:line to stderr, then a backtrace, then aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view message);
}  // namespace cohort

/// `message` (evaluated only on failure) names the invariant by its label, e.g. "PLACE-2: …".
#define COHORT_CHECK(condition, message)                                 \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      ::cohort::check_failed(__FILE__, __LINE__, #condition, (message)); \
  } while (false)
