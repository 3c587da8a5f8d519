/// {"max_response_length", "overlong_buffer_len", "penalty_factor"}; lengths [B] -> penalty [B]:
/// the score of the reward rule "overlong".
#include <cmath>

#include "runtime/tasks/rule_rewards.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {

Expected<Json> overlong(Case& in) {
  const Json options{{"max_response_length", in.integer("max_response_length")},
                     {"buffer", in.integer("overlong_buffer_len")},
                     {"factor", in.number("penalty_factor", 1.0)}};
  const Array lengths = in.array("lengths", 1);
  COHORT_TRY(in.read());
  COHORT_ASSIGN(const auto rule, tasks::make_rule_reward("overlong", options.dump()));
  std::vector<tasks::RewardRow> rows(lengths.values.size());
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i].response_tokens = static_cast<uint32_t>(std::llround(lengths.values[i]));
  std::vector<double> penalties;
  for (const tasks::RewardResult& result : rule->score(rows)) penalties.push_back(result.score);
  return Json{{"penalty", in.answer(penalties, lengths)}};
}

}  // namespace cohort::evaluate
