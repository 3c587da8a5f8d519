/// GRPO for pass@k (verl's grpo_passk): only the best of a group gets something, its lead over the
/// second best: (best - second)/(std + 1e-6). The first of several best ones leads by 0, as all the
/// others of its group, and as a group of one.
#include <algorithm>

#include "algorithms/estimators/estimator.hpp"

namespace cohort::algorithms {
namespace {

std::vector<double> grpo_passk_rewards(const TrajectoryScores& in) {
  std::vector<double> result(in.scores.size(), 0);
  for (const auto& [id, members] : members_by_group(in.group_of)) {
    if (members.size() < 2) continue;
    const auto is_better = [&](size_t a, size_t b) { return in.scores[a] > in.scores[b]; };
    std::vector<size_t> best_first = members;
    std::stable_sort(best_first.begin(), best_first.end(), is_better);
    const double lead = in.scores[best_first[0]] - in.scores[best_first[1]];
    result[best_first[0]] = lead / (moments_of(in.scores, members).std + in.asked.epsilon);
  }
  return result;
}

}  // namespace

Estimator grpo_passk_estimator() { return {grpo_passk_rewards}; }

}  // namespace cohort::algorithms
