/// {"max_response_length", "overlong_buffer_len", "penalty_factor": 1, "cap": false}; lengths [B]
/// -> penalty [B]: the score of the reward rule "overlong", with "cap" never below -penalty_factor
/// (TRL's get_soft_overlong_punishment stays at -1 behind the longest length).
#include <algorithm>
#include <cmath>

#include "runtime/tasks/rule_rewards.hpp"
#include "tools/actor-node/evaluate/kinds.hpp"

namespace cohort::evaluate {

Expected<Json> overlong(Case& in) {
  const double factor = in.number("penalty_factor", 1.0);
  const bool has_cap = in.flag("cap", false);
  const Json options{{"max_response_length", in.integer("max_response_length")},
                     {"buffer", in.integer("overlong_buffer_len")},
                     {"factor", factor}};
  const Array lengths = in.array("lengths", 1);
  in.check_lengths("lengths", lengths);
  COHORT_TRY(in.read());
  COHORT_ASSIGN(const auto rule, tasks::make_rule_reward("overlong", options.dump()));
  std::vector<tasks::RewardRow> rows(lengths.values.size());
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i].response_tokens = static_cast<uint32_t>(std::llround(lengths.values[i]));
  std::vector<double> penalties;
  for (const tasks::RewardResult& result : rule->score(rows))
    penalties.push_back(has_cap ? std::max(result.score, -factor) : result.score);
  return Json{{"penalty", in.answer(penalties, lengths)}};
}

}  // namespace cohort::evaluate
