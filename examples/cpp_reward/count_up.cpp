// An environment: the observation is a number, the answer has to be the next one, three times.
#include <cohort/environment.hpp>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

class CountUp {
 public:
  std::string reset(uint64_t seed) {
    number_ = seed % 100;
    left_ = 3;
    return std::to_string(number_);
  }

  cohort::sdk::Step step(std::string_view answer) {
    cohort::sdk::Step step;
    --left_;
    step.is_valid = !answer.empty();
    step.is_effective = answer == std::to_string(number_ + 1);
    if (step.is_effective) {
      ++number_;
      step.reward = 1.0 / 3;
    }
    step.is_done = left_ == 0 || !step.is_effective;
    step.is_success = left_ == 0 && step.is_effective;
    step.stop_reason = step.is_success ? "goal" : step.is_done ? "wrong" : "";
    step.observation = std::to_string(number_);
    step.metrics = {{"counted", 3.0 - left_}};
    return step;
  }

  std::string instructions() const { return "Answer with the next number."; }
  int actions_left() const { return left_; }

 private:
  uint64_t number_ = 0;
  int left_ = 0;
};

}  // namespace

COHORT_ENVIRONMENT(CountUp)
