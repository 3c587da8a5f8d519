#include "runtime/proto/trajectory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cohort::proto {

namespace {

Error invalid(const Trajectory& x, std::string_view what) {
  return {Errc::corrupt, fmt::format("trajectory {}: {}", to_string(x.key), what)};
}

template <class T>
bool has_length(const std::vector<T>& column, size_t count) {
  return column.empty() || column.size() == count;
}

Expected<void> validate_columns(const Trajectory& x) {
  size_t count = x.tokens.size();
  if (!has_length(x.response_mask, count) || !has_length(x.behavior_logp, count) ||
      !has_length(x.ref_logp, count) || !has_length(x.values, count) ||
      !has_length(x.teacher_logp, count) || !has_length(x.token_rewards, count) ||
      !has_length(x.token_versions, count))
    return invalid(x, fmt::format("a column has neither 0 nor {} entries", count));
  for (size_t i = 0; i < x.response_mask.size(); ++i) {
    if (x.response_mask[i] > 1)
      return invalid(x, fmt::format("response_mask[{}] is {}", i, x.response_mask[i]));
    if (x.response_mask[i] == 0) continue;
    if (!x.behavior_logp.empty() && !std::isfinite(x.behavior_logp[i]))
      return invalid(x, fmt::format("behavior_logp[{}] is not finite", i));
    if (!x.ref_logp.empty() && !std::isfinite(x.ref_logp[i]))
      return invalid(x, fmt::format("ref_logp[{}] is not finite", i));
    if (!x.teacher_logp.empty() && !std::isfinite(x.teacher_logp[i]))
      return invalid(x, fmt::format("teacher_logp[{}] is not finite", i));
  }
  return {};
}

}  // namespace

std::optional<double> accuracy_of(const Trajectory& trajectory) {
  std::optional<double> accuracy;
  for (const RewardPart& part : trajectory.reward_parts)
    if (const size_t cut = part.name.rfind('/');
        cut != std::string::npos && std::string_view(part.name).substr(cut + 1) == k_accuracy)
      accuracy = part.value;
  return accuracy;
}

bool is_demonstration(const Trajectory& trajectory) {
  return std::ranges::any_of(trajectory.metrics, [](const auto& metric) {
    return metric.first == k_demonstration && metric.second > 0;
  });
}

std::vector<TokenRange> contexts_of(const Trajectory& trajectory) {
  std::vector<TokenRange> contexts{{0, trajectory.tokens.size()}};
  for (const Turn& turn : trajectory.turns) {
    if (turn.context_begin <= contexts.back().begin) continue;
    contexts.back().end = turn.context_begin;
    contexts.push_back({turn.context_begin, trajectory.tokens.size()});
  }
  return contexts;
}

Expected<void> validate(const Trajectory& trajectory) {
  COHORT_TRY(validate_columns(trajectory));
  if (to_string(trajectory.key.kind) == "unknown") return invalid(trajectory, "unknown kind");
  if (!std::isfinite(trajectory.score)) return invalid(trajectory, "score is not finite");
  if (trajectory.weight_version_min > trajectory.weight_version_max)
    return invalid(trajectory, "weight_version_min is above weight_version_max");
  size_t end = 0, context = 0;
  for (const Turn& turn : trajectory.turns) {
    if (turn.response_begin < end || turn.response_end < turn.response_begin ||
        turn.response_end > trajectory.tokens.size())
      return invalid(trajectory,
                     fmt::format("turn range [{}, {}) of {} tokens overlaps or is outside",
                                 turn.response_begin, turn.response_end, trajectory.tokens.size()));
    if (turn.context_begin != context && turn.context_begin != end)
      return invalid(trajectory, fmt::format("a turn's context begins at {}, neither at {} as the "
                                             "one before nor behind its answer at {}",
                                             turn.context_begin, context, end));
    context = turn.context_begin;
    end = turn.response_end;
  }
  return {};
}

}  // namespace cohort::proto
