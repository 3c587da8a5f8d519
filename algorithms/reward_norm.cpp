#include "algorithms/reward_norm.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>

namespace cohort::algorithms {
namespace {

constexpr double k_std_epsilon =
    1e-6;  // ROLL's and verl's: added to the std, and below it a group counts as equal

struct Moments {
  size_t count = 0;
  double mean = 0;
  double std = 0;  // unbiased; 0 for one member
};

Moments moments_of(std::span<const double> scores, std::span<const size_t> members) {
  Moments moments{members.size(), 0, 0};
  for (size_t i : members) moments.mean += scores[i];
  moments.mean /= static_cast<double>(members.size());
  if (members.size() < 2) return moments;
  double squares = 0;
  for (size_t i : members) squares += (scores[i] - moments.mean) * (scores[i] - moments.mean);
  moments.std = std::sqrt(squares / static_cast<double>(members.size() - 1));
  return moments;
}

using Members = std::map<uint32_t, std::vector<size_t>>;

Members members_by_group(std::span<const double> scores, std::span<const uint32_t> group_of) {
  COHORT_CHECK(scores.size() == group_of.size(), "reward norm: one group id per score");
  Members members;
  for (size_t i = 0; i < group_of.size(); ++i) members[group_of[i]].push_back(i);
  return members;
}

/// Returns the moments of each trajectory's group.
std::vector<Moments> group_moments(std::span<const double> scores,
                                   std::span<const uint32_t> group_of) {
  std::vector<Moments> result(scores.size());
  for (const auto& [id, members] : members_by_group(scores, group_of)) {
    Moments moments = moments_of(scores, members);
    for (size_t i : members) result[i] = moments;
  }
  return result;
}

Expected<NormScope> parse_scope(std::string_view name, std::string_view key) {
  if (name == "batch") return NormScope::batch;
  if (name == "group") return NormScope::group;
  if (name == "none" || name == "null" || name == "~" || name.empty()) return NormScope::none;
  return Error{Errc::config, fmt::format("{}: '{}' is not one of batch, group, none", key, name)};
}

}  // namespace

Expected<RewardNormOptions> reward_norm_options(std::string_view grouping, std::string_view method,
                                                std::optional<std::string_view> mean_type,
                                                std::optional<std::string_view> std_type) {
  const NormScope scope = grouping == "batch" ? NormScope::batch : NormScope::group;
  RewardNormOptions options{NormScope::none, NormScope::none};
  if (method == "mean") {
    options.mean = scope;
  } else if (method == "mean_std" || method == "asym_clip") {
    options = {scope, scope};
  } else if (method != "identity" && !method.empty()) {
    return Error{Errc::config,
                 fmt::format("reward_normalization.method: '{}' is not one of identity, mean, "
                             "mean_std, asym_clip",
                             method)};
  }
  if (mean_type) {
    COHORT_ASSIGN(options.mean, parse_scope(*mean_type, "norm_mean_type"));
  }
  if (std_type) {
    COHORT_ASSIGN(options.std, parse_scope(*std_type, "norm_std_type"));
  }
  return options;
}

std::vector<double> agentic_reward_norm(std::span<const double> scores,
                                        std::span<const uint32_t> group_of,
                                        const RewardNormOptions& options) {
  const std::vector<uint32_t> one_group(scores.size(), 0);
  const std::vector<Moments> batch = group_moments(scores, one_group);
  const std::vector<Moments> group = group_moments(scores, group_of);
  std::vector<double> result(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    double centred = scores[i];
    if (options.mean != NormScope::none)
      centred -= (options.mean == NormScope::batch ? batch : group)[i].mean;
    result[i] = centred;
    if (options.std == NormScope::none) continue;
    const Moments& spread = (options.std == NormScope::batch ? batch : group)[i];
    const bool is_flat = spread.count < 2 || spread.std <= k_std_epsilon;
    result[i] = is_flat ? 0 : centred / (spread.std + k_std_epsilon);
  }
  return result;
}

std::vector<double> grpo_advantages(std::span<const double> scores,
                                    std::span<const uint32_t> group_of) {
  const std::vector<Moments> group = group_moments(scores, group_of);
  std::vector<double> result(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    const bool is_single = group[i].count < 2;  // verl: mean 0, std 1
    const double mean = is_single ? 0 : group[i].mean;
    const double std = is_single ? 1 : group[i].std;
    result[i] = (scores[i] - mean) / (std + k_std_epsilon);
  }
  return result;
}

std::vector<double> dr_grpo_advantages(std::span<const double> scores,
                                       std::span<const uint32_t> group_of) {
  const std::vector<Moments> group = group_moments(scores, group_of);
  std::vector<double> result(scores.size());
  for (size_t i = 0; i < scores.size(); ++i)
    result[i] = scores[i] - (group[i].count < 2 ? 0 : group[i].mean);
  return result;
}

std::vector<double> rloo_advantages(std::span<const double> scores,
                                    std::span<const uint32_t> group_of) {
  const std::vector<Moments> group = group_moments(scores, group_of);
  std::vector<double> result = dr_grpo_advantages(scores, group_of);
  for (size_t i = 0; i < scores.size(); ++i) {
    const auto n = static_cast<double>(group[i].count);
    if (group[i].count > 1) result[i] *= n / (n - 1);
  }
  return result;
}

GroupStats group_stats(std::span<const double> scores, std::span<const uint32_t> group_of) {
  GroupStats stats;
  for (const auto& [id, members] : members_by_group(scores, group_of)) {
    ++stats.groups;
    for (size_t i : members) {
      if (scores[i] != scores[members[0]]) {
        ++stats.mixed_groups;
        break;
      }
    }
  }
  return stats;
}

}  // namespace cohort::algorithms
