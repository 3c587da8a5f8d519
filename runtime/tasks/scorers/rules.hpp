#pragma once
/// The rules behind make_rule_reward(): one factory each, which reads its options (the caller asks
/// Options::finish()). A rule judges one row at a time and keeps nothing between rows.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tasks/scorers/scorer_options.hpp"
#include "runtime/tasks/text_reward.hpp"

namespace cohort::tasks {

class RowRule : public Reward {
 public:
  std::vector<RewardResult> score(std::span<const RewardRow> rows) override;

 protected:
  virtual RewardResult judge(const RewardRow& row) const = 0;
};

using RulePtr = Expected<std::unique_ptr<Reward>>;

RulePtr make_math_rule(Options& options);
RulePtr make_gsm8k(Options& options);
RulePtr make_exact(Options& options);
RulePtr make_math(Options& options);
RulePtr make_math_dapo(Options& options);
RulePtr make_multiple_choice(Options& options);
/// ROLL's: only a letter in \boxed{} counts.
RulePtr make_multiple_choice_boxed(Options& options);
RulePtr make_ifeval(Options& options);
RulePtr make_format(Options& options);
RulePtr make_overlong(Options& options);
RulePtr make_length(Options& options);
RulePtr make_repetition(Options& options);

/// Returns a result whose detail is "pred X".
RewardResult with_prediction(double score, std::string_view prediction);
/// Returns a result whose detail says why there is no answer.
RewardResult without_answer(double score, std::string_view why);

}  // namespace cohort::tasks
