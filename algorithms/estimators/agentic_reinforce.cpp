/// ROLL's agentic_reinforce: the discount counts answers, not tokens (segment_returns).
#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {

Estimator agentic_reinforce_estimator() { return {rewards_as_asked, segment_returns}; }

}  // namespace cohort::algorithms
