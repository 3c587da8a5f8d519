/// OPO (arXiv 2505.23585): A = r - b, b = sum len_i r_i / sum len_i over the group, len = the
/// tokens that the policy sampled: the baseline of least variance where a token's squared gradient
/// is worth the same everywhere.
#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {
namespace {

std::vector<double> opo_rewards(const TrajectoryScores& in) {
  COHORT_CHECK(in.lengths.size() == in.scores.size(), "opo: one length per trajectory");
  std::vector<double> result(in.scores.begin(), in.scores.end());
  for (const auto& [id, members] : members_by_group(in.group_of)) {
    if (members.size() < 2 && in.asked.flat == Flat::by_formula) continue;
    double weighted = 0, tokens = 0;
    for (size_t i : members) {
      weighted += in.lengths[i] * in.scores[i];
      tokens += in.lengths[i];
    }
    for (size_t i : members) result[i] -= tokens > 0 ? weighted / tokens : 0;
  }
  return result;
}

}  // namespace

Estimator opo_estimator() { return {opo_rewards}; }

}  // namespace cohort::algorithms
