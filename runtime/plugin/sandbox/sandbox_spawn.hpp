#pragma once
/// fork and exec for a parent that may be large and have many threads: the child shares the
/// parent's memory until it execs (as posix_spawn does; copying the page tables of a trainer would
/// take longer than the child's work), allocates nothing, and inherits no descriptor but those
/// named. One thread of this process, made at the first call, starts every child: a child's
/// PR_SET_PDEATHSIG fires when the thread that started it ends, and workers come and go.
/// Thread-safe.
#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"

struct sock_fprog;

namespace cohort::plugin {

struct SpawnRequest {
  std::vector<std::string> argv;         // argv[0] is a path
  std::vector<std::string> environment;  // the child's whole environment
  std::vector<int> descriptors;          // what the child sees as 0, 1, 2, …; no other is open
  std::vector<std::pair<int, rlim_t>> limits;  // RLIMIT_*, soft and hard
  uid_t uid = 0;                               // also gid; 0: stays what it is
  std::string folder;                          // working folder; empty: stays where it is
  bool has_own_session = false;
  const sock_fprog* filter = nullptr;  // seccomp, with no_new_privs; put in force last
};

/// Starts the child; it gets SIGKILL when this process ends. Returns its id, or Errc::io naming the
/// program and what failed.
Expected<pid_t> spawn(const SpawnRequest& request);

}  // namespace cohort::plugin
