#pragma once
/// From one score per trajectory to one number per trajectory that says how good it was for its
/// group. Pure; std only. `group_of[i]` is any id that trajectories of one group share (order and
/// gaps do not matter).
///
/// ROLL (agentic_reward_norm): r' = (r - mean) / (std + 1e-6), std unbiased, each over none, the
/// batch or the group. ALG-1: with a std, a scope of one member or of |std| <= 1e-6 gives exact
/// zeros: such a group has nothing to teach. verl and TRL leave such a scope to the formula
/// (Flat::by_formula), where a group of one keeps its score.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "runtime/catalog/catalog.hpp"

namespace cohort::algorithms {

/// running: all scores of the run so far, this batch's too.
enum class NormScope : uint8_t { none, batch, group, running };

/// What a scope gives that has one member, or equal scores.
enum class Flat : uint8_t {
  zero,        // 0 if it is divided by a std (ROLL); a group of one is its own mean
  by_formula,  // a group of one: mean 0, std 1 (verl's grpo); equal scores: 0/(0 + epsilon)
};

struct Moments {
  size_t count = 0;
  double mean = 0;
  double std = 0;  // unbiased; 0 for one member
};

struct RewardNormOptions {
  NormScope mean = NormScope::group;
  NormScope std = NormScope::group;
  Flat flat = Flat::zero;
  double epsilon = 1e-6;  // added to the std; TRL's: 1e-4
  Moments running = {};   // of NormScope::running
};

/// ROLL's `reward_normalization`: `scope` is what its grouping compares, `method` what is taken off
/// and divided by; the explicit norm_mean_type and norm_std_type win over the method.
RewardNormOptions reward_norm_options(NormScope scope, catalog::NormMethod method,
                                      std::optional<NormScope> mean = {},
                                      std::optional<NormScope> std = {});

using Members = std::map<uint32_t, std::vector<size_t>>;
/// Returns the trajectories of each group, in ascending order.
Members members_by_group(std::span<const uint32_t> group_of);

Moments moments_of(std::span<const double> scores, std::span<const size_t> members);

/// Mean and spread of all scores that it has been given (Welford, Technometrics 4, 1962).
struct RunningMoments {
  uint64_t count = 0;
  double mean = 0;
  double squares = 0;  // sum of (x - mean)^2
  void add(double score);
  Moments moments() const;
  bool operator==(const RunningMoments&) const = default;
};

/// Normalises as the options say. scores and group_of have one entry per trajectory.
std::vector<double> agentic_reward_norm(std::span<const double> scores,
                                        std::span<const uint32_t> group_of,
                                        const RewardNormOptions& options);

struct GroupStats {
  size_t groups = 0;
  size_t mixed_groups = 0;  // groups whose scores are not all equal: the ones that teach
};
GroupStats group_stats(std::span<const double> scores, std::span<const uint32_t> group_of);

}  // namespace cohort::algorithms
