#pragma once
/// Processes that belong to this one: started, watched, and gone when it is gone. Owner: main.
/// Thread-safe. The programs are fork servers (fork_server.hpp): the first start of a program in an
/// environment loads it, the next ones are forked from there. One thread per server hears of its
/// children's ends and calls on_exit; the destructor kills what is left (SIGKILL) and joins. When a
/// server is lost, its children are, and the next start loads the program again.
#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/platform/fork_server.hpp"

namespace cohort::platform {

struct ChildExit {
  size_t index = 0;    // of start(): 0, 1, 2, …
  bool is_ok = false;  // exit code 0
  std::string text;    // "exited with code 3", "was killed by signal 9 (Killed)"
};

class ChildProcesses {
 public:
  using OnExit = std::function<void(const ChildExit&)>;
  using Variables = std::vector<std::pair<std::string, std::string>>;
  explicit ChildProcesses(OnExit on_exit) : on_exit_(std::move(on_exit)) {}
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  /// Runs argv[0] (the path of a program that serves forks) with the arguments behind it; standard
  /// output and error are this process's, `environment` is put over its own. Returns before the
  /// child runs: what fails later is its end. Errc::io, Errc::invalid_argument if the arguments
  /// are longer than a packet.
  Expected<void> start(const std::vector<std::string>& argv, const Variables& environment = {});
  /// SIGKILL to the child of that index, unless it has ended.
  void kill(size_t index);
  /// Returns true when all have ended, false after `timeout_ms`.
  bool wait_all(int timeout_ms);

 private:
  struct Server {
    std::string program;
    Variables environment;
    pid_t pid = 0;
    int socket = -1;
    bool is_open = true;        // its end has not been seen
    std::set<size_t> children;  // that have not ended
    std::thread thread;
  };
  Expected<Server*> server_of(const std::string& program, const Variables& environment);
  Expected<void> launch(Server& server) const;
  void listen(Server& server);
  /// Tells of what is still among the server's children, and takes it out.
  void end(Server& server, size_t index, const ChildExit& exit);

  OnExit on_exit_;
  std::mutex mutex_;  // all below
  std::condition_variable changed_;
  size_t count_ = 0;  // of starts
  std::vector<std::unique_ptr<Server>> servers_;
};

/// For a child: the kernel kills it when its parent goes. Returns Errc::closed if that has
/// happened.
Expected<void> die_with_parent(pid_t parent);

}  // namespace cohort::platform
