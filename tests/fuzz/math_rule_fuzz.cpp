// Two lines: two answers, compared in both orders and as response and ground truth.
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/check.hpp"
#include "runtime/tasks/rule_rewards.hpp"
#include "runtime/tasks/scorers/math_answer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cohort;
  using namespace cohort::tasks;
  static const std::unique_ptr<Reward> reward = std::move(*make_rule_reward("math_rule"));
  std::string_view text(reinterpret_cast<const char*>(data), size);
  size_t cut = std::min(text.find('\n'), text.size());
  std::string_view a = text.substr(0, cut), b = text.substr(std::min(cut + 1, text.size()));
  bool is_same = math::same_answer(a, b);
  COHORT_CHECK(is_same == math::same_answer(b, a), "symmetric");
  COHORT_CHECK(!is_same || math::same_answer(a, a), "what equals something equals itself");
  math::normal_form(a);
  RewardRow row;
  row.response = b;
  row.ground_truth = a;
  RewardResult result = reward->score({&row, 1}).front();
  COHORT_CHECK(result.score == 0 || (result.score == 1 && result.detail.starts_with("pred ")),
               "0, or 1 with pred");
  return 0;
}
