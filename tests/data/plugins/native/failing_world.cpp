// An environment that fails in the way the answer asks for.
#include <unistd.h>

#include <cohort/environment.hpp>
#include <cstdlib>
#include <stdexcept>

struct FailingWorld {
  std::string reset(uint64_t seed) { return "seed " + std::to_string(seed); }
  cohort::sdk::Step step(std::string_view answer) {
    if (answer == "abort") std::abort();
    if (answer == "hang") ::sleep(3600);
    if (answer == "throw") throw std::runtime_error("not this one");
    cohort::sdk::Step step;
    step.observation = answer;
    return step;
  }
};

COHORT_ENVIRONMENT(FailingWorld)
