#pragma once
/// The sections of report.html; each returns "" if the data has nothing for it. Pure. Internal to
/// runtime/observe.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/observe/report_data.hpp"

namespace cohort::observe {

extern const std::string_view k_report_style;   // CSS
extern const std::string_view k_report_script;  // hover and legend toggles

/// Drawing widths: a chart is drawn once for wide and once for narrow screens, so that its text
/// keeps its size.
inline constexpr double k_wide = 1040;
inline constexpr double k_narrow = 352;

/// Names to colour classes: the same name has the same colour on the whole page.
class ColorMap {
 public:
  /// `preset` names get the first colours whether they occur or not.
  explicit ColorMap(std::vector<std::string> preset) : names_(std::move(preset)) {}
  /// Returns the colour index (class s<index>) of `name`; new names get the next colour.
  size_t index_of(const std::string& name);

 private:
  std::vector<std::string> names_;
};

struct ReportColors {
  ColorMap phases{
      {"generate", "update", "publish", "evaluate", "reference", "reward", "advantage"}};
  ColorMap objects{
      {"train_params", "infer_params", "optimizer", "kv_cache", "grads", "ref_params"}};
};

/// Returns `wide` and `narrow` as a pair of which the page shows the one that fits.
std::string dual(std::string_view wide, std::string_view narrow);
/// Returns <section id=…><h2>title</h2>body</section>, or "" if `body` is empty.
std::string section(std::string_view id, std::string_view title, std::string_view body);

/// Returns a big number with its name.
std::string small_headline(std::string_view name, std::string_view value);
/// Returns an entry of a legend in colour class s<color>.
std::string legend_key(size_t color, std::string_view text);
/// Returns the cards of the data, of its spans and of its transitions, by number.
std::vector<CardInfo> cards_of(const ReportData& data);

// report.cpp
std::string events_part(const ReportData& data);
// report_series.cpp
std::string headline_part(const ReportData& data);
std::string learning_part(const ReportData& data);
std::string charts_part(const ReportData& data);
// report_timeline.cpp
std::string timeline_part(const ReportData& data, ReportColors& colors);
std::string step_times_part(const ReportData& data, ReportColors& colors);
// report_residency.cpp
std::string residency_part(const ReportData& data, ReportColors& colors);
// report_trajectories.cpp
std::string trajectories_part(const ReportData& data);

/// The steps whose timeline is drawn and their stretch of time.
struct TimeWindow {
  uint64_t first_step = 0, last_step = 0;
  double start_s = 0, end_s = 0;
  bool is_empty() const { return end_s <= start_s; }
};
/// Returns the last `steps` steps that have compute spans or transitions.
TimeWindow last_steps(const ReportData& data, size_t steps);

}  // namespace cohort::observe
