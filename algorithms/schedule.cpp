#include "algorithms/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cohort::algorithms {

Expected<ScheduleKind> parse_schedule_kind(std::string_view name) {
  if (name == "constant" || name == "constant_with_warmup") return ScheduleKind::constant;
  if (name == "linear") return ScheduleKind::linear;
  if (name == "cosine" || name == "cosine_with_min_lr") return ScheduleKind::cosine;
  if (name == "cosine_with_restarts") return ScheduleKind::cosine_with_restarts;
  if (name == "polynomial") return ScheduleKind::polynomial;
  if (name == "inverse_sqrt") return ScheduleKind::inverse_sqrt;
  if (name == "warmup_stable_decay") return ScheduleKind::warmup_stable_decay;
  return Error{Errc::config, fmt::format("lr_scheduler_type: '{}' is no schedule", name)};
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

double half_cosine(double f) { return (1 + std::cos(std::numbers::pi * f)) / 2; }

/// g of the header: from 1 to 0. `at`: steps behind the warm-up, of `span`.
double share_left(const ScheduleOptions& options, double at, double span) {
  const double done = std::min(1.0, at / span);
  switch (options.kind) {
    case ScheduleKind::linear:
      return 1 - done;
    case ScheduleKind::cosine:
      return half_cosine(done);
    case ScheduleKind::polynomial:
      return std::pow(1 - done, options.power);
    case ScheduleKind::cosine_with_restarts:
      return done >= 1 ? 0 : half_cosine(std::fmod(options.cycles * done, 1.0));
    case ScheduleKind::warmup_stable_decay: {
      const auto decay = std::min(static_cast<double>(options.decay_steps), span);
      return decay == 0 ? 1 : half_cosine(std::clamp((at - (span - decay)) / decay, 0.0, 1.0));
    }
    case ScheduleKind::constant:
    case ScheduleKind::trapezoid:
    case ScheduleKind::inverse_sqrt:
      break;
  }
  return 1;
}

}  // namespace

double learning_rate(const ScheduleOptions& options, uint64_t step) {
  if (options.kind == ScheduleKind::trapezoid) return trapezoid(options, step);
  if (step < options.warmup_steps)
    return options.base * static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps);
  const auto at = static_cast<double>(step - options.warmup_steps);
  if (options.kind == ScheduleKind::inverse_sqrt)
    return options.base / std::sqrt(1 + at / options.timescale);
  if (options.kind == ScheduleKind::constant || options.total_steps <= options.warmup_steps)
    return options.base;
  const auto span = static_cast<double>(options.total_steps - options.warmup_steps);
  const double left = share_left(options, at, span);
  return options.base * (options.min_ratio + (1 - options.min_ratio) * left);
}

}  // namespace cohort::algorithms
