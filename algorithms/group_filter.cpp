#include "algorithms/group_filter.hpp"

#include <algorithm>
#include <cmath>

namespace cohort::algorithms {
namespace {

double mean_of(std::span<const double> scores) {
  double sum = 0;
  for (double score : scores) sum += score;
  return sum / static_cast<double>(scores.size());
}

/// Returns exactly 0 for equal scores: the rounding of their mean does not reach it.
double deviation_of(std::span<const double> scores, bool are_equal) {
  if (are_equal) return 0;
  const double mean = mean_of(scores);
  double squares = 0;
  for (double score : scores) squares += (score - mean) * (score - mean);
  return std::sqrt(squares / static_cast<double>(scores.size() - 1));
}

bool is_kept(std::span<const double> scores, bool are_equal, const GroupFilterOptions& options) {
  switch (options.type) {
    case catalog::GroupFilter::no_filter:
      return true;
    case catalog::GroupFilter::mean_filter: {
      const double mean = are_equal ? scores.front() : mean_of(scores);
      return options.threshold_down < mean && mean < options.threshold_up;
    }
    case catalog::GroupFilter::std_filter:
      return deviation_of(scores, are_equal) > options.std_threshold;
  }
  return true;
}

}  // namespace

GroupVerdict judge_group(std::span<const double> scores, size_t size,
                         const GroupFilterOptions& options) {
  using catalog::GroupFilter;
  if (options.type == GroupFilter::no_filter) return GroupVerdict::kept;
  if (scores.empty() || (scores.size() == 1 && size > 1)) return GroupVerdict::unscored;
  if (options.type == GroupFilter::std_filter && size == 1) return GroupVerdict::kept;
  const bool are_equal =
      std::ranges::all_of(scores, [&](double score) { return score == scores.front(); });
  if (is_kept(scores, are_equal, options)) return GroupVerdict::kept;
  if (!are_equal) return GroupVerdict::outside;
  if (scores.front() == 0) return GroupVerdict::all_0;
  return scores.front() == 1 ? GroupVerdict::all_1 : GroupVerdict::equal;
}

std::string_view to_string(GroupVerdict verdict) {
  static constexpr std::string_view k_names[] = {"kept",  "all_0",   "all_1",
                                                 "equal", "outside", "unscored"};
  return k_names[static_cast<size_t>(verdict)];
}

}  // namespace cohort::algorithms
