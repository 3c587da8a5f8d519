#include "algorithms/reward_norm.hpp"

#include <cmath>

#include "runtime/base/check.hpp"

namespace cohort::algorithms {
namespace {

constexpr double k_flat_std = 1e-6;  // ROLL's: below it a scope counts as equal

/// Returns the moments of each trajectory's group.
std::vector<Moments> group_moments(std::span<const double> scores,
                                   std::span<const uint32_t> group_of) {
  std::vector<Moments> result(scores.size());
  COHORT_CHECK(scores.size() == group_of.size(), "reward norm: one group id per score");
  for (const auto& [id, members] : members_by_group(group_of)) {
    Moments moments = moments_of(scores, members);
    for (size_t i : members) result[i] = moments;
  }
  return result;
}

/// A group of one by formula: mean 0, std 1.
Moments scope_of_one(const Moments& moments, NormScope scope, Flat flat) {
  const bool is_lone = scope == NormScope::group && flat == Flat::by_formula && moments.count < 2;
  return is_lone ? Moments{1, 0, 1} : moments;
}

}  // namespace

Members members_by_group(std::span<const uint32_t> group_of) {
  Members members;
  for (size_t i = 0; i < group_of.size(); ++i) members[group_of[i]].push_back(i);
  return members;
}

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

void RunningMoments::add(double score) {
  ++count;
  const double before = score - mean;
  mean += before / static_cast<double>(count);
  squares += before * (score - mean);
}

Moments RunningMoments::moments() const {
  const double spread = count < 2 ? 0 : std::sqrt(squares / static_cast<double>(count - 1));
  return {static_cast<size_t>(count), mean, spread};
}

RewardNormOptions reward_norm_options(NormScope scope, catalog::NormMethod method,
                                      std::optional<NormScope> mean, std::optional<NormScope> std) {
  RewardNormOptions options{NormScope::none, NormScope::none};
  switch (method) {
    case catalog::NormMethod::identity:
      break;
    case catalog::NormMethod::mean:
      options.mean = scope;
      break;
    case catalog::NormMethod::mean_std:
    case catalog::NormMethod::asym_clip:
      options.mean = options.std = scope;
      break;
  }
  options.mean = mean.value_or(options.mean);
  options.std = std.value_or(options.std);
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
    const auto moments = [&](NormScope scope) {
      if (scope == NormScope::running) return options.running;
      return scope_of_one((scope == NormScope::batch ? batch : group)[i], scope, options.flat);
    };
    double centred = scores[i];
    if (options.mean != NormScope::none) centred -= moments(options.mean).mean;
    result[i] = centred;
    if (options.std == NormScope::none) continue;
    const Moments spread = moments(options.std);
    const bool is_flat =
        options.flat == Flat::zero && (spread.count < 2 || spread.std <= k_flat_std);
    result[i] = is_flat ? 0 : centred / (spread.std + options.epsilon);
  }
  return result;
}

GroupStats group_stats(std::span<const double> scores, std::span<const uint32_t> group_of) {
  GroupStats stats;
  for (const auto& [id, members] : members_by_group(group_of)) {
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
