// Fails in the way its row asks for.
#include <unistd.h>

#include <cmath>
#include <cohort/reward.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

struct Failing {
  double score(const cohort::sdk::Row& row) {
    if (row.response == "hang") ::sleep(3600);
    if (row.response == "exit") ::_exit(3);
    if (row.response == "abort") std::abort();
    if (row.response == "segfault") std::raise(SIGSEGV);
    if (row.response == "throw") throw std::runtime_error("not this one");
    if (row.response == "nan") return std::nan("");
    if (row.response == "print") std::puts("not a frame"), std::fflush(stdout);
    return static_cast<double>(row.response.size());
  }
};

COHORT_REWARD(Failing)
