#pragma once
/// Ranks of a group for tests: threads of this process, or forked processes. Header only. Every
/// wait has an end; children die with their parent.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/compute/collectives/collectives.hpp"
#include "tests/support/child_process.hpp"

namespace cohort::tests {

inline compute::GroupOptions group_options(int rank, int size, const std::string& name,
                                           std::shared_ptr<compute::Rendezvous> rendezvous,
                                           int timeout_ms = 20000) {
  compute::GroupOptions options;
  options.name = name;
  options.rank = rank;
  options.size = size;
  for (int i = 0; i < size; ++i) options.labels.push_back("card " + std::to_string(i));
  options.rendezvous = std::move(rendezvous);
  options.timeout_ms = timeout_ms;
  return options;
}

/// Runs body(rank) on one thread per rank and waits for all.
inline void on_threads(int size, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { body(rank); });
}

/// Calls body(rank, group) on a thread per rank; group is nullptr for one.
inline void on_group(int size, compute::CollectiveBackend backend,
                     const std::function<void(int, compute::Collectives*)>& body) {
  auto rendezvous = compute::Rendezvous::in_process();
  on_threads(size, [&](int rank) {
    std::unique_ptr<compute::Collectives> group;
    if (size > 1) {
      compute::GroupOptions options = group_options(rank, size, "g", rendezvous);
      options.backend = backend;
      group = compute::Collectives::join(options).value();
      group->barrier().value();  // a rank that leaves early is gone for those still joining
    }
    body(rank, group.get());
  });
}

/// One forked process per rank. The child runs body(rank) and leaves with its result; stdout and
/// stderr are the parent's. Fork before this process has threads that hold locks.
class ForkedRanks {
 public:
  ForkedRanks(int size, const std::function<int(int)>& body) : status_(static_cast<size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) {
      std::fflush(nullptr);
      const pid_t parent = ::getpid(), pid = ::fork();
      if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(98);
        ::_exit(run(body, rank));
      }
      pids_.push_back(pid);
    }
  }
  ~ForkedRanks() {
    for (size_t i = 0; i < pids_.size(); ++i) {
      if (pids_[i] < 0) continue;
      ::kill(pids_[i], SIGKILL);
      ::waitpid(pids_[i], nullptr, 0);
    }
  }
  ForkedRanks(const ForkedRanks&) = delete;
  void kill(int rank) const { signal(rank, SIGKILL); }
  void signal(int rank, int number) const { ::kill(pids_[static_cast<size_t>(rank)], number); }
  /// Returns the exit code, -signal, or -1000 when `limit_ms` has passed.
  int wait(int rank, int limit_ms = 40000) {
    const auto at = static_cast<size_t>(rank);
    auto is_done = [&] {
      if (pids_[at] >= 0 && ::waitpid(pids_[at], &status_[at], WNOHANG) == pids_[at])
        pids_[at] = -1;
      return pids_[at] < 0;
    };
    if (!test::wait_until(is_done, limit_ms)) return -1000;
    return WIFEXITED(status_[at]) ? WEXITSTATUS(status_[at]) : -WTERMSIG(status_[at]);
  }

 private:
  static int run(const std::function<int(int)>& body, int rank) {
    try {
      return body(rank);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
      return 97;
    }
  }
  std::vector<pid_t> pids_;
  std::vector<int> status_;
};

}  // namespace cohort::tests
