#include "actors/roles/survivors.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace cohort::actors {

using proto::Trajectory;

Survivors::Survivors(const config::RunConfig& config, const std::vector<Trajectory>& batch)
    : all_(batch) {
  is_cut_ = std::ranges::any_of(
      batch, [](const Trajectory& t) { return t.is_greedy || !t.mask_reason.empty(); });
  const bool is_compared = is_cut_ && config.derived.group_size > 1 && compares_groups(config);
  std::map<uint32_t, size_t> left_of;
  std::map<uint32_t, std::optional<double>> greedy;  // score, by group
  for (const Trajectory& t : batch) {
    const bool is_scored = t.mask_reason.empty();
    if (t.is_greedy)
      greedy[t.key.group] = is_scored ? std::optional(t.score) : std::nullopt;
    else
      left_of[t.key.group] += is_scored ? 1 : 0;
  }
  for (const Trajectory& t : batch) {
    if (t.is_greedy) continue;
    const size_t place = total_++;
    if (!t.mask_reason.empty()) continue;
    const bool has_baseline = greedy.empty() || greedy[t.key.group];
    if ((is_compared && left_of[t.key.group] == 1) || !has_baseline) {
      ++lone_;
      continue;
    }
    places_.push_back(place);
    if (is_cut_) kept_.push_back(t);
    if (!greedy.empty()) baselines_.push_back(*greedy[t.key.group]);
  }
}

std::vector<std::pair<size_t, size_t>> Survivors::optimizer_batches(size_t size) const {
  const size_t count = (total_ + size - 1) / size;
  std::vector<std::pair<size_t, size_t>> batches;
  for (size_t i = 0, next = 0; i < count; ++i) {
    const size_t begin = next, end = total_ * (i + 1) / count;
    while (next < places_.size() && places_[next] < end) ++next;
    batches.emplace_back(begin, next);
  }
  return batches;
}

}  // namespace cohort::actors
