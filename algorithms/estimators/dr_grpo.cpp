/// Dr.GRPO (arXiv 2503.20783, section 3.2): A = r - mean of the group. Without the division by the
/// deviation a question that is nearly always, or nearly never, answered weighs no more than
/// another; without the division by an answer's own length (loss_agg_mode seq-mean-token-constant,
/// which a config of this estimator gets unless it says otherwise) a long wrong answer is punished
/// as much per token as a short one. verl: adv_estimator grpo with norm_adv_by_std_in_grpo false.
/// A group of one has nothing to be compared with and gets 0 (verl: its raw score).
#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {
namespace {

std::vector<double> dr_grpo_rewards(const TrajectoryScores& in) {
  return agentic_reward_norm(in.scores, in.group_of, {NormScope::group, NormScope::none});
}

}  // namespace

Estimator dr_grpo_estimator() { return {dr_grpo_rewards}; }

}  // namespace cohort::algorithms
