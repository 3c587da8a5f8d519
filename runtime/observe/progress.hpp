#pragma once
/// Small helpers for people: how fast, how long still, and numbers short enough to read at a
/// glance. Pure: `now` is an argument (cohort::now_seconds()). Not thread-safe per object. Bound:
/// EtaEstimator keeps 32 steps.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace cohort::observe {

/// Returns "0 B", "512 B", "1.5 KiB", "64 MiB", …: at most four characters of number.
std::string format_bytes(uint64_t bytes);
/// Returns "0.4 ms", "830 ms", "12.3 s", "4m 05s", "2h 07m", "3d 04h"; "-" if not finite or
/// negative.
std::string format_duration(double seconds);
/// Returns "950", "12.4k", "3.1M", "2.0G" (decimal thousands); "-" if not finite.
std::string format_count(double count);
/// Returns about `digits` significant digits, fixed where that is short ("0.0123", "1.50"),
/// scientific for tiny and huge magnitudes ("3.0e-05"); "-" if not finite.
std::string format_number(double value, int digits = 3);
/// Returns "71.9%"; "-" if not finite.
std::string format_percent(double fraction);

/// Time still needed, from the durations of the last steps. Robust: a single step (laptop asleep,
/// first compile) counts at most as 4 medians, while regular slow steps (evaluation every 10th) are
/// averaged in.
class EtaEstimator {
 public:
  /// Sets where the clock starts, before the first step.
  void start(double now_s) { last_s_ = now_s; }
  /// Notes that a step ended at `now_s`.
  void step_done(double now_s);
  /// Returns the expected seconds for `steps_left` more steps, less the time of the present one;
  /// nothing before the first step has ended.
  std::optional<double> remaining_seconds(uint64_t steps_left, double now_s) const;
  /// Returns the robust mean of a step's seconds.
  std::optional<double> step_seconds() const;

 private:
  std::optional<double> last_s_;
  std::deque<double> durations_s_;
};

}  // namespace cohort::observe
