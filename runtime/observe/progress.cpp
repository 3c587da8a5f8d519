#include "runtime/observe/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace cohort::observe {
namespace {

constexpr size_t k_eta_steps = 32;  // long enough to hold three evaluations at eval_steps 10
constexpr double k_outlier_medians =
    4;  // an evaluation step is 2-3 medians long, a pause is far more

/// Returns `value` with at most three significant digits and no trailing ".0" from 10 upwards.
std::string three_digits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

}  // namespace

std::string format_bytes(uint64_t bytes) {
  constexpr std::array<const char*, 6> k_units = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < k_units.size()) {
    value /= 1024;
    ++unit;
  }
  std::string number = three_digits(value);
  if (number.find('.') != std::string::npos) {
    while (number.back() == '0') number.pop_back();
    if (number.back() == '.') number.pop_back();
  }
  return fmt::format("{} {}", number, k_units[unit]);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds == 0) return "0 s";
  if (seconds < 0.00995) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 9.995) return fmt::format("{:.2f} s", seconds);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  auto whole = static_cast<uint64_t>(std::llround(std::min(seconds, 1e15)));
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d {:02}h", whole / 86400, whole / 3600 % 24);
}

std::string format_count(double count) {
  if (!std::isfinite(count)) return "-";
  constexpr std::array<const char*, 5> k_units = {"", "k", "M", "G", "T"};
  double value = std::abs(count);
  const char* sign = count < 0 ? "-" : "";
  if (value < 999.5)
    return value == std::floor(value) ? fmt::format("{}{:.0f}", sign, value)
                                      : sign + three_digits(value);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < k_units.size()) {
    value /= 1000;
    ++unit;
  }
  return sign + (value < 99.95 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value)) +
         k_units[unit];
}

std::string format_number(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  if (value == 0) return "0";
  double magnitude = std::abs(value);
  if (magnitude < 0.9995e-3 || magnitude >= 1e6)
    return fmt::format("{:.{}e}", value, std::max(0, digits - 2));
  std::string rounded = fmt::format("{:.{}e}", magnitude, digits - 1);  // 0.00999999 is 1.00e-02
  int exponent = std::atoi(rounded.c_str() + rounded.find('e') + 1);
  return fmt::format("{:.{}f}", value, std::max(0, digits - 1 - exponent));
}

std::string format_percent(double fraction) {
  return std::isfinite(fraction) ? fmt::format("{:.1f}%", fraction * 100) : "-";
}

void EtaEstimator::step_done(double now_s) {
  if (last_s_) {
    durations_s_.push_back(std::max(0.0, now_s - *last_s_));
    if (durations_s_.size() > k_eta_steps) durations_s_.pop_front();
  }
  last_s_ = now_s;
}

std::optional<double> EtaEstimator::step_seconds() const {
  if (durations_s_.empty()) return std::nullopt;
  std::vector<double> sorted(durations_s_.begin(), durations_s_.end());
  std::ranges::sort(sorted);
  double cap = k_outlier_medians * sorted[(sorted.size() - 1) / 2];
  double sum = 0;
  for (double duration : sorted) sum += std::min(duration, cap);
  return sum / static_cast<double>(sorted.size());
}

std::optional<double> EtaEstimator::remaining_seconds(uint64_t steps_left, double now_s) const {
  auto each = step_seconds();
  if (!each) return std::nullopt;
  if (steps_left == 0) return 0.0;
  double passed = std::clamp(now_s - *last_s_, 0.0, *each);
  return std::max(0.0, static_cast<double>(steps_left) * *each - passed);
}

}  // namespace cohort::observe
