/// REINFORCE as ROLL has it: G_t = r_t + gamma G_{t+1} of rewards that reward_normalization has
/// centred, or not.
#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {

Estimator reinforce_estimator() { return {rewards_as_asked}; }

}  // namespace cohort::algorithms
