#pragma once
/// Failpoints: named points of the protocols where a test can make this process die, stand still or
/// fail, from outside, through the environment:
///   COHORT_FAILPOINT="name:count:action[:claim][;name:count:action[:claim]...]"
/// The `count`-th time (1, 2, ...) that this process passes `name` it does `action`: `kill`
/// (SIGKILL to itself), `stop` (SIGSTOP), `fail` (the caller takes its error path), `hang` (the
/// thread waits for ever, the process lives), `page` (the thread takes page after page of a file in
/// /tmp from its disk, as if memory had run out), `slow` (each pass takes 100 ms from then on). A
/// point of a certain thing is name@key. `claim` is a file: one process alone acts, the one that
/// creates it, so that children, and those started in the place of a dead one, may inherit the
/// variable. It then holds "name pid microseconds" (wall time). Read once, before main; an entry
/// that cannot be read ends the process with exit code 2 and a line. Thread-safe. Unset, a point
/// costs one relaxed load. Bound: 16 points. The names in use are in docs/failure.md.
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

namespace cohort::failpoint {

namespace detail {
extern std::atomic<bool> is_armed;
bool pass(std::string_view name);
}  // namespace detail

/// Returns true if the caller is to fail here.
inline bool hit(std::string_view name) {
  return detail::is_armed.load(std::memory_order_relaxed) && detail::pass(name);
}

/// The same for the point `name@key`, e.g. "rollout.play@77".
inline bool hit(std::string_view name, uint64_t key) {
  return detail::is_armed.load(std::memory_order_relaxed) &&
         detail::pass(std::string(name) + "@" + std::to_string(key));
}

/// The same as an error: Errc::internal that names the point.
inline Expected<void> check(std::string_view name) {
  if (hit(name)) return Error{Errc::internal, "failpoint " + std::string(name)};
  return {};
}

/// Replaces the armed points, as COHORT_FAILPOINT would; empty: none. REQUIRES: no other thread
/// passes a point meanwhile. Returns Errc::invalid_argument with the entry that cannot be read.
Expected<void> arm(std::string_view points);

}  // namespace cohort::failpoint
