#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {

std::optional<Estimator> estimator_of(catalog::AdvEstimator x) {
  using catalog::AdvEstimator;
  switch (x) {
#define COHORT_BUILT(id, ...) \
  case AdvEstimator::id:      \
    return id##_estimator();
#define COHORT_PLANNED(id, ...) \
  case AdvEstimator::id:        \
    break;
#include "runtime/catalog/advantage_estimators.def"
#undef COHORT_BUILT
#undef COHORT_PLANNED
  }
  return std::nullopt;
}

std::vector<double> rewards_as_asked(const TrajectoryScores& in) {
  return agentic_reward_norm(in.scores, in.group_of, in.asked);
}

}  // namespace cohort::algorithms
