#pragma once
/// The processes that hold a run's cards, as /proc shows them: children of servers that they are
/// forked from, which are children of the run (platform/fork_server.hpp).
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/child_process.hpp"

namespace cohort::test {

inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> all;
  std::error_code gone;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(parent) + "/task", gone)) {
    std::istringstream children(slurp(task.path() / "children"));
    for (pid_t child = 0; children >> child;) all.push_back(child);
  }
  return all;
}

/// The only child of a process, or 0.
inline pid_t child_of(pid_t parent) {
  const std::vector<pid_t> all = children_of(parent);
  return all.size() == 1 ? all.front() : 0;
}

/// Those of a run that hold slot `slot`, and if it is negative, any.
inline std::vector<pid_t> holders_of(pid_t run, int slot = -1) {
  std::string words = std::string("--slot") + '\0';
  if (slot >= 0) words += std::to_string(slot) + '\0';
  std::vector<pid_t> all;
  for (pid_t server : children_of(run))
    for (pid_t child : children_of(server))
      if (slurp("/proc/" + std::to_string(child) + "/cmdline").find(words) != std::string::npos)
        all.push_back(child);
  return all;
}

/// Kills the holder of a slot as soon as there is one. Returns its pid, or 0 if none has come.
inline pid_t kill_holder(pid_t run, int slot, int limit_ms = 20000) {
  std::vector<pid_t> holders;
  wait_until([&] { return !(holders = holders_of(run, slot)).empty(); }, limit_ms);
  if (holders.empty()) return 0;
  ::kill(holders.front(), SIGKILL);
  return holders.front();
}

/// SIGTERM to a run or node and all its processes, as systemd and Slurm send it. Returns them.
inline std::vector<pid_t> terminate_all(pid_t run) {
  std::vector<pid_t> all = holders_of(run);
  for (pid_t server : children_of(run)) all.push_back(server);
  all.push_back(run);
  for (pid_t each : all) ::kill(each, SIGTERM);
  return all;
}

/// Returns true when none of these runs any more (nobody may have reaped it).
inline bool are_gone(const std::vector<pid_t>& processes, int limit_ms = 5000) {
  return wait_until(
      [&] {
        return std::ranges::all_of(processes, [](pid_t pid) {
          const std::string stat = slurp("/proc/" + std::to_string(pid) + "/stat");
          return stat.empty() || stat.find(") Z ") != std::string::npos;
        });
      },
      limit_ms);
}

}  // namespace cohort::test
