#pragma once
/// What the processes of a run on this host wait for, and what the kernel says of them and of the
/// children that they name. Free of CAF. Reads files and /proc; blocks for the window.
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/plan/check/stall.hpp"

namespace cohort::actors {

/// Returns the folder of a run's waits (publish_waits).
std::filesystem::path waits_folder(const std::filesystem::path& run);

struct HostWaits {
  double now = 0;                       // now_seconds(), from which the waits count
  std::vector<ProcessWaits> processes;  // of this host
  std::map<pid_t, plan::ProcessState> states;
  std::map<std::string, size_t> elsewhere;  // host -> processes, which only that host can judge
};

/// Watches for `window` whether the processes compute. None: the run has ended, or all are
/// elsewhere.
HostWaits read_host_waits(const std::filesystem::path& run, std::chrono::milliseconds window);

/// Keeps of each process and level the waits that plan::diagnose() may name, the oldest, the
/// youngest and the youngest that began before `since`, so many that `waits_max` are left if that
/// can be; counts the others in left_out.
void keep_telling(std::vector<ProcessWaits>& processes, size_t waits_max, double since);

}  // namespace cohort::actors
