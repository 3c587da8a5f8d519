#pragma once
/// Processes that belong to this one: started, watched, and gone when it is gone. Owner: main.
/// Thread-safe. One thread per child waits for its end and calls on_exit from there; the destructor
/// kills what is left (SIGKILL), reaps it and joins. A child is killed by the kernel when the
/// thread that started it ends (PR_SET_PDEATHSIG): start() from a thread that lives as long as the
/// run.
#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::platform {

struct ChildExit {
  size_t index = 0;    // of start(): 0, 1, 2, …
  bool is_ok = false;  // exit code 0
  std::string text;    // "exited with code 3", "was killed by signal 9 (Killed)"
};

class ChildProcesses {
 public:
  using OnExit = std::function<void(const ChildExit&)>;
  explicit ChildProcesses(OnExit on_exit) : on_exit_(std::move(on_exit)) {}
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// Runs argv[0] (a path) with the arguments behind it; standard output and error are this
  /// process's. Returns the child's pid, or Errc::io.
  /// `environment` is put over this process's own.
  Expected<pid_t> start(const std::vector<std::string>& argv,
                        const std::vector<std::pair<std::string, std::string>>& environment = {});
  /// SIGKILL to the child of that index, unless it has ended.
  void kill(size_t index);
  /// Returns true when all have ended, false after `timeout_ms`.
  bool wait_all(int timeout_ms);

 private:
  OnExit on_exit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<size_t, pid_t> running_;
  std::vector<std::thread> threads_;
};

/// For a child: the kernel kills it when its parent goes. Returns Errc::closed if that has
/// happened.
Expected<void> die_with_parent(pid_t parent);

}  // namespace cohort::platform
