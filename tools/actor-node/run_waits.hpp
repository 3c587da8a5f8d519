#pragma once
/// What the processes of a run wait for, and what this host's kernel says of them: the input of
/// plan::diagnose().
#include <chrono>
#include <filesystem>

#include "runtime/base/error.hpp"
#include "runtime/plan/check/stall.hpp"

namespace cohort {

/// Returns the folder of a run's waits (publish_waits).
std::filesystem::path waits_folder(const std::filesystem::path& run);

struct RunWaits {
  plan::StallInput input;                   // the processes of this host
  std::map<std::string, size_t> elsewhere;  // host -> processes, which only that host can judge
};

/// Watches the processes for `window`, which it takes. Returns Errc::not_found if `run` is no run
/// folder. No process: the run has ended, or all are elsewhere.
Expected<RunWaits> read_run_waits(const std::filesystem::path& run, double after_s,
                                  std::chrono::milliseconds window);

}  // namespace cohort
