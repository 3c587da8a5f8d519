#include "tools/actor-node/become_runner.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "runtime/base/blas_core.hpp"
#include "tools/actor-node/cluster_command.hpp"
#include "tools/actor-node/supervisor.hpp"

namespace cohort {
namespace {

/// What of the run's options concerns this process; the rest is for the runner.
struct OwnOptions {
  ClusterAccess access;
  std::string cluster;
  int restarts = -1;
};

OwnOptions own_options(char** argv) {
  OwnOptions own;
  CLI::App options;
  options.allow_extras();
  options.set_help_flag();
  add_access_options(options, own.access);
  options.add_option("--cluster", own.cluster);
  options.add_option("--restarts", own.restarts);
  int count = 0;
  while (argv[count] != nullptr) ++count;
  try {
    options.parse(count, argv);
  } catch (const CLI::ParseError&) {  // the runner says what is wrong with it
  }
  return own;
}

}  // namespace

int become_runner(char** argv) {
  auto start = rank_start();
  if (!start) {
    std::fprintf(stderr, "error: %s\n", start.error().detail.c_str());
    return 2;
  }
  const OwnOptions own = own_options(argv);
  if (*start && (*start)->rank > 0) return serve_rank(**start, own.access);
  constexpr int k_cluster_restarts = 3;
  const bool is_clustered = *start || !own.cluster.empty();
  const int restarts = own.restarts >= 0 ? own.restarts : is_clustered ? k_cluster_restarts : 0;
  if (restarts > 0) return supervise(argv, {.restarts = restarts});
  return exec_runner(argv);
}

int exec_runner(char** argv) {
  const std::string runner = runner_path();
  choose_blas_core(true);
  ::execv(runner.c_str(), argv);
  std::fprintf(stderr, "error: cannot start %s, which belongs beside actor-node: %s\n",
               runner.c_str(), std::strerror(errno));
  return 1;
}

}  // namespace cohort
