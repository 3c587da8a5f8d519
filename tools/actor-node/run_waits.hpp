#pragma once
/// What the processes of a run wait for, and what this host's kernel says of them: the input of
/// plan::diagnose().
#include <chrono>
#include <filesystem>

#include "actors/cluster/host_waits.hpp"
#include "runtime/base/error.hpp"
#include "runtime/plan/check/stall.hpp"

namespace cohort {

using actors::waits_folder;

struct RunWaits {
  plan::StallInput input;                   // the processes of the hosts that were asked
  std::map<std::string, size_t> elsewhere;  // host -> processes, which only that host can judge
  bool is_of_no_run = false;                // of a cluster on which none is
};

/// Watches the processes for `window`, which it takes. Returns Errc::not_found if `run` is no run
/// folder. No process: the run has ended, or all are elsewhere.
Expected<RunWaits> read_run_waits(const std::filesystem::path& run, double after_s,
                                  std::chrono::milliseconds window);

}  // namespace cohort
