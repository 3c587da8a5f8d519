#pragma once
/// From one score per trajectory to one number per trajectory that says how good it was for its
/// group. Pure; std only. `group_of[i]` is any id that trajectories of one group share (order and
/// gaps do not matter).
///
/// ROLL (agentic_reward_norm): r' = (r - mean) / (std + 1e-6), std unbiased, each over none, the
/// batch or the group. ALG-1: with a std, a scope of one member or of |std| <= 1e-6 gives exact
/// zeros: such a group has nothing to teach. verl (core_algos.py, names in quotes there): "grpo" A
/// = (s - mean)/(std + 1e-6) (DeepSeekMath, arXiv 2402.03300, eq. 3 of section 4.1.2); Dr.GRPO A =
/// s - mean (arXiv 2503.20783); "rloo" A = n/(n-1) (s - mean) (arXiv 2402.14740, eq. 3). verl
/// leaves a group of one as it is: A = s/(1 + 1e-6), s and s.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::algorithms {

enum class NormScope : uint8_t { none, batch, group };

struct RewardNormOptions {
  NormScope mean = NormScope::group;
  NormScope std = NormScope::group;
};

/// Reads ROLL's `reward_normalization`: grouping (batch | tags | traj_group_id | any column),
/// method (identity | mean | mean_std | asym_clip), and the explicit norm_mean_type / norm_std_type
/// (batch | group | none), which win over method. Returns Errc::config for an unknown method or
/// type.
Expected<RewardNormOptions> reward_norm_options(std::string_view grouping, std::string_view method,
                                                std::optional<std::string_view> mean_type = {},
                                                std::optional<std::string_view> std_type = {});

/// ROLL's normalisation. scores and group_of have one entry per trajectory.
std::vector<double> agentic_reward_norm(std::span<const double> scores,
                                        std::span<const uint32_t> group_of,
                                        const RewardNormOptions& options);

/// verl's outcome advantages, per trajectory.
std::vector<double> grpo_advantages(std::span<const double> scores,
                                    std::span<const uint32_t> group_of);
std::vector<double> dr_grpo_advantages(std::span<const double> scores,
                                       std::span<const uint32_t> group_of);
std::vector<double> rloo_advantages(std::span<const double> scores,
                                    std::span<const uint32_t> group_of);

struct GroupStats {
  size_t groups = 0;
  size_t mixed_groups = 0;  // groups whose scores are not all equal: the ones that teach
};
GroupStats group_stats(std::span<const double> scores, std::span<const uint32_t> group_of);

}  // namespace cohort::algorithms
