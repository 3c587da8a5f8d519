/// REINFORCE++ (arXiv 2501.03262) as verl has it: the discounted return of token rewards, whitened
/// over all valid tokens of the batch. The baseline variant takes the group's mean off first.
#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {

Estimator reinforce_plus_plus_estimator() { return {rewards_as_asked, discounted_returns, true}; }
Estimator reinforce_plus_plus_baseline_estimator() {
  return {centred_in_group, discounted_returns, true};
}

}  // namespace cohort::algorithms
