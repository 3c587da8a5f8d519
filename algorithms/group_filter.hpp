#pragma once
/// Whether a group of trajectories carries a signal. Pure; std only.
///
/// std_filter keeps a group whose scores have a deviation (unbiased, ROLL's) above a threshold: at
/// 0 every group whose scores are not all equal (DAPO's dynamic sampling, arXiv 2503.14476, section
/// 3.2; verl's filter_groups). mean_filter keeps down < mean < up (ROLL). A group of one that is
/// meant to be one has no deviation and is kept, as in verl.
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/catalog/catalog.hpp"

namespace cohort::algorithms {

struct GroupFilterOptions {
  catalog::GroupFilter type = catalog::GroupFilter::no_filter;
  double threshold_down = 0;
  double threshold_up = 1;
  double std_threshold = 0;
};

/// What a group is: that its scores are all 0 says another thing than that they are all 1.
enum class GroupVerdict : uint8_t {
  kept,
  all_0,
  all_1,
  equal,     // otherwise
  outside,   // of the thresholds
  unscored,  // fewer than two of its trajectories have a score: there is nothing to compare
};
inline constexpr size_t k_group_verdicts = 6;

/// `scores`: of the group's trajectories that have one. `size`: all of them.
GroupVerdict judge_group(std::span<const double> scores, size_t size,
                         const GroupFilterOptions& options);

/// Returns the name of the verdict's number in the row of a step, e.g. "all_0".
std::string_view to_string(GroupVerdict verdict);

}  // namespace cohort::algorithms
