#include "tools/actor-node/become_runner.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tools/actor-node/cluster_command.hpp"

namespace cohort {
namespace {

/// What of the run's options concerns a host that only serves: the rest is for RANK 0.
ClusterAccess access_in(char** argv) {
  ClusterAccess access;
  CLI::App options;
  options.allow_extras();
  options.set_help_flag();
  add_access_options(options, access);
  int count = 0;
  while (argv[count] != nullptr) ++count;
  options.parse(count, argv);
  return access;
}

}  // namespace

int become_runner(char** argv) {
  auto start = rank_start();
  if (!start) {
    std::fprintf(stderr, "error: %s\n", start.error().detail.c_str());
    return 2;
  }
  if (*start && (*start)->rank > 0) return serve_rank(**start, access_in(argv));
  const std::string runner = runner_path();
  ::execv(runner.c_str(), argv);
  std::fprintf(stderr, "error: cannot start %s, which belongs beside actor-node: %s\n",
               runner.c_str(), std::strerror(errno));
  return 1;
}

}  // namespace cohort
