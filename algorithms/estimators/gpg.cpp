/// GPG (arXiv 2504.02546) as verl has it: A = alpha (r - mean of the group), alpha = the
/// batch's trajectories over those whose score is not 0.
#include <algorithm>

#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {
namespace {

std::vector<double> gpg_rewards(const TrajectoryScores& in) {
  std::vector<double> result = centred_in_group(in);
  const auto zeros = std::count(in.scores.begin(), in.scores.end(), 0.0);
  const auto all = static_cast<double>(in.scores.size());
  const double alpha = all / std::max(all - static_cast<double>(zeros), 1.0);
  for (double& x : result) x *= alpha;
  return result;
}

}  // namespace

Estimator gpg_estimator() { return {gpg_rewards}; }

}  // namespace cohort::algorithms
