#pragma once
/// The frame of a program's main: no exception leaves it, and success means that stdout was
/// written. Once per process, on its main thread.
#include <functional>

namespace cohort {

/// Returns what `body` returns. What it throws, and a stdout that cannot be written (a full disk, a
/// pipe that is gone) where it returned 0, is one line on stderr behind `prefix` ("traj: ") and
/// exit code 2.
int run_main(const char* prefix, const std::function<int()>& body);

}  // namespace cohort
