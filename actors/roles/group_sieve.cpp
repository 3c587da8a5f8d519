#include "actors/roles/group_sieve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/config/train_groups.hpp"

namespace cohort::actors {
namespace {

using algorithms::GroupVerdict;

algorithms::GroupFilterOptions options_of(const config::QueryFilter& filter) {
  return {filter.type, filter.threshold_down, filter.threshold_up, filter.std_threshold};
}

/// Parts that shape the length of an answer and say nothing about its worth.
bool is_shaping(const config::RunConfig& config, const std::string& part) {
  const auto reward = config.rewards.find(part);
  return reward != config.rewards.end() && (reward->second.type == config::RewardType::overlong ||
                                            reward->second.type == config::RewardType::length);
}

std::string reason_of(GroupVerdict verdict, std::span<const double> values, size_t size) {
  if (verdict == GroupVerdict::unscored)
    return fmt::format("{} of its {} trajectories have a score", values.size(), size);
  if (verdict != GroupVerdict::outside) return fmt::format("every score is {:g}", values.front());
  const auto [least, most] = std::ranges::minmax(values);
  return fmt::format("scores from {:g} to {:g} are outside of the thresholds", least, most);
}

}  // namespace

// The score, with or without its shaping: docs/algorithms.md, DAPO.
double GroupSieve::value_of(const proto::Trajectory& t) const {
  using config::FilterMetric;
  const FilterMetric metric = config_.dynamic_sampling.metric;
  if (metric == FilterMetric::reward) return t.score;
  if (metric == FilterMetric::acc)
    if (const auto accuracy = proto::accuracy_of(t)) return *accuracy;
  if (t.reward_parts.empty()) return t.score;
  double score = 0;  // added up, not subtracted from: equal answers stay equal to the bit
  for (const proto::RewardPart& part : t.reward_parts)
    if (!is_shaping(config_, part.name)) score += part.weight * part.value;
  return score;
}

GroupSieve::Verdict GroupSieve::judge(std::span<const proto::Trajectory* const> group) const {
  std::vector<double> values;
  size_t size = 0;
  for (const proto::Trajectory* t : group) {
    if (t->is_greedy) continue;
    ++size;
    if (t->mask_reason.empty()) values.push_back(value_of(*t));
  }
  const config::QueryFilter& filter = config::group_filter_of(config_, group.front()->tag);
  const GroupVerdict verdict = algorithms::judge_group(values, size, options_of(filter));
  if (verdict == GroupVerdict::kept) return {};
  return {verdict, reason_of(verdict, values, size)};
}

std::vector<std::pair<std::string, double>> filter_metrics(
    const std::map<uint32_t, GroupVerdict>& verdicts) {
  std::array<double, algorithms::k_group_verdicts> counts{};
  for (const auto& [group, verdict] : verdicts) ++counts[static_cast<size_t>(verdict)];
  std::vector<std::pair<std::string, double>> numbers;
  for (size_t i = 0; i < counts.size(); ++i)
    numbers.emplace_back(fmt::format("filter/{}", to_string(static_cast<GroupVerdict>(i))),
                         counts[i]);
  return numbers;
}

}  // namespace cohort::actors
