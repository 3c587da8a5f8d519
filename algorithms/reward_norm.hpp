#pragma once
/// From one score per trajectory to one number per trajectory that says how good it was for its
/// group. Pure; std only. `group_of[i]` is any id that trajectories of one group share (order and
/// gaps do not matter).
///
/// ROLL (agentic_reward_norm): r' = (r - mean) / (std + 1e-6), std unbiased, each over none, the
/// batch or the group. ALG-1: with a std, a scope of one member or of |std| <= 1e-6 gives exact
/// zeros: such a group has nothing to teach.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/catalog/catalog.hpp"

namespace cohort::algorithms {

enum class NormScope : uint8_t { none, batch, group };

struct RewardNormOptions {
  NormScope mean = NormScope::group;
  NormScope std = NormScope::group;
};

/// ROLL's `reward_normalization`: `scope` is what its grouping compares, `method` what is taken off
/// and divided by; the explicit norm_mean_type and norm_std_type win over the method.
RewardNormOptions reward_norm_options(NormScope scope, catalog::NormMethod method,
                                      std::optional<NormScope> mean = {},
                                      std::optional<NormScope> std = {});

/// ROLL's normalisation. scores and group_of have one entry per trajectory.
std::vector<double> agentic_reward_norm(std::span<const double> scores,
                                        std::span<const uint32_t> group_of,
                                        const RewardNormOptions& options);

struct GroupStats {
  size_t groups = 0;
  size_t mixed_groups = 0;  // groups whose scores are not all equal: the ones that teach
};
GroupStats group_stats(std::span<const double> scores, std::span<const uint32_t> group_of);

}  // namespace cohort::algorithms
