/// ReMax (arXiv 2310.10505): A = r - b, b = the score of the greedy answer to the same prompt.
#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {
namespace {

std::vector<double> remax_rewards(const TrajectoryScores& in) {
  COHORT_CHECK(in.baselines.size() == in.scores.size(), "remax: one baseline per trajectory");
  std::vector<double> result(in.scores.begin(), in.scores.end());
  for (size_t i = 0; i < result.size(); ++i) result[i] -= in.baselines[i];
  return result;
}

}  // namespace

Estimator remax_estimator() { return {remax_rewards}; }

}  // namespace cohort::algorithms
