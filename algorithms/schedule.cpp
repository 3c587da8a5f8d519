#include "algorithms/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cohort::algorithms {

Expected<ScheduleKind> parse_schedule_kind(std::string_view name) {
  if (name == "constant" || name == "constant_with_warmup") return ScheduleKind::constant;
  if (name == "linear") return ScheduleKind::linear;
  if (name == "cosine") return ScheduleKind::cosine;
  return Error{Errc::config,
               fmt::format("lr_scheduler_type: '{}' is not one of constant, linear, cosine", name)};
}

namespace {

double trapezoid(const ScheduleOptions& options, uint64_t step) {
  const auto at = static_cast<double>(step);
  const auto total = static_cast<double>(options.total_steps);
  double rate = options.base;
  if (options.warmup_steps > 0)
    rate *= std::min(1.0, (at + 1) / static_cast<double>(options.warmup_steps));
  if (options.decay_fraction > 0)
    rate *= std::min(1.0, (total - at) / (options.decay_fraction * total));
  return std::max(rate, 0.0);
}

}  // namespace

double learning_rate(const ScheduleOptions& options, uint64_t step) {
  if (options.kind == ScheduleKind::trapezoid) return trapezoid(options, step);
  if (step < options.warmup_steps)
    return options.base * static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps);
  if (options.kind == ScheduleKind::constant || options.total_steps <= options.warmup_steps)
    return options.base;
  const auto span = static_cast<double>(options.total_steps - options.warmup_steps);
  const double done = std::min(1.0, static_cast<double>(step - options.warmup_steps) / span);
  const double left =
      options.kind == ScheduleKind::linear ? 1 - done : (1 + std::cos(std::numbers::pi * done)) / 2;
  return options.base * (options.min_ratio + (1 - options.min_ratio) * left);
}

}  // namespace cohort::algorithms
