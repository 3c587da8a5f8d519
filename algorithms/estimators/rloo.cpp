/// RLOO (arXiv 2402.14740, eq. 3): A = r - mean of the others of the group = n/(n-1) (r - mean). A
/// group of one gets 0, as in verl's rloo_vectorized (its rloo: the raw score).
#include <map>

#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {
namespace {

std::vector<double> rloo_rewards(const TrajectoryScores& in) {
  std::vector<double> result =
      agentic_reward_norm(in.scores, in.group_of, {NormScope::group, NormScope::none});
  std::map<uint32_t, double> sizes;
  for (uint32_t group : in.group_of) ++sizes[group];
  for (size_t i = 0; i < result.size(); ++i)
    if (const double n = sizes.at(in.group_of[i]); n > 1) result[i] *= n / (n - 1);
  return result;
}

}  // namespace

Estimator rloo_estimator() { return {rloo_rewards}; }

}  // namespace cohort::algorithms
