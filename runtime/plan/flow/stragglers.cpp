#include "runtime/plan/flow/stragglers.hpp"

#include <algorithm>

namespace cohort::plan {

void GroupClock::ended(uint64_t group, double now) {
  auto found = open_.find(group);
  if (found == open_.end()) return;
  const double took_s = now - found->second;
  open_.erase(found);
  took_s_.insert(std::upper_bound(took_s_.begin(), took_s_.end(), took_s), took_s);
}

double GroupClock::median_s() const { return took_s_.empty() ? 0 : took_s_[took_s_.size() / 2]; }

std::vector<uint64_t> GroupClock::late(double now) const {
  std::vector<uint64_t> groups;
  if (options_.factor <= 0 || took_s_.empty()) return groups;
  const double limit_s = std::max(options_.factor * median_s(), options_.floor_s);
  for (const auto& [group, since] : open_)
    if (now - since > limit_s) groups.push_back(group);
  std::stable_sort(groups.begin(), groups.end(),
                   [this](uint64_t a, uint64_t b) { return open_.at(a) < open_.at(b); });
  return groups;
}

std::vector<size_t> SlowReplicas::end_round(const std::vector<bool>& has_played) {
  std::vector<size_t> resting;
  for (size_t r = 0; r < replicas_.size(); ++r) {
    Replica& replica = replicas_[r];
    if (replica.rest_rounds > 0) {
      --replica.rest_rounds;
      continue;
    }
    if (!has_played.at(r)) continue;
    replica.outrun_rounds = replica.is_outrun ? replica.outrun_rounds + 1 : 0;
    replica.is_outrun = false;
    if (replica.outrun_rounds < k_rounds) continue;
    replica = {};
    replica.rest_rounds = k_rest_rounds;
    resting.push_back(r);
  }
  return resting;
}

}  // namespace cohort::plan
