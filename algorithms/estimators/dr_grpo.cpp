/// Dr.GRPO (arXiv 2503.20783, section 3.2): A = r - mean of the group. Without the division by the
/// deviation a question that is nearly always, or nearly never, answered weighs no more than
/// another; without the division by an answer's own length (loss_agg_mode seq-mean-token-constant,
/// which a config of this estimator gets unless it says otherwise) a long wrong answer is punished
/// as much per token as a short one. verl: adv_estimator grpo with norm_adv_by_std_in_grpo false.
#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {

Estimator dr_grpo_estimator() { return {centred_in_group}; }

}  // namespace cohort::algorithms
