#pragma once
/// The rules behind make_rule_reward(): one factory each, which reads its options (the caller asks
/// Options::finish()). A rule judges one row at a time and keeps nothing between rows.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/tasks/json_options.hpp"
#include "runtime/tasks/text_reward.hpp"

namespace cohort::tasks {

class RowRule : public Reward {
 public:
  std::vector<RewardResult> score(std::span<const RewardRow> rows) override;

 protected:
  virtual RewardResult judge(const RewardRow& row) const = 0;
};

using RulePtr = Expected<std::unique_ptr<Reward>>;
template <class Rule, class... Args>
RulePtr rule_of(Args&&... args) {
  return std::unique_ptr<Reward>(std::make_unique<Rule>(std::forward<Args>(args)...));
}

/// make_<id>() of each rule of runtime/catalog/rewards.def.
#define COHORT_RULE(id, ...) RulePtr make_##id(Options& options);
#define COHORT_HOSTED(id, ...)
#define COHORT_PLANNED(id, ...)
#include "runtime/catalog/rewards.def"
#undef COHORT_RULE
#undef COHORT_HOSTED
#undef COHORT_PLANNED

/// Returns a result whose detail is "pred X".
RewardResult with_prediction(double score, std::string_view prediction);
/// Returns a result whose detail says why there is no answer.
RewardResult without_answer(double score, std::string_view why);

}  // namespace cohort::tasks
