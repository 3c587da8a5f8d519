/// RLOO (arXiv 2402.14740, eq. 3): A = r - mean of the others of the group = n/(n-1) (r - mean).
#include <algorithm>

#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {
namespace {

std::vector<double> rloo_rewards(const TrajectoryScores& in) {
  std::vector<double> result = centred_in_group(in);
  for (const auto& [id, members] : members_by_group(in.group_of)) {
    const auto n = static_cast<double>(members.size());
    for (size_t i : members) result[i] *= n / std::max(n - 1, 1.0);
  }
  return result;
}

/// A group of one gives 0, as in verl's rloo_vectorized.
std::vector<double> rloo_vectorized_rewards(const TrajectoryScores& in) {
  TrajectoryScores scores = in;
  scores.asked.flat = Flat::zero;
  return rloo_rewards(scores);
}

}  // namespace

Estimator rloo_estimator() { return {rloo_rewards}; }
Estimator rloo_vectorized_estimator() { return {rloo_vectorized_rewards}; }

}  // namespace cohort::algorithms
