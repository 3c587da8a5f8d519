#pragma once
/// Inline SVG charts: axes, ticks and line charts, drawn for a given width so that text keeps its
/// size on small screens. Colours come from CSS classes (s0 … s7) of the page. Pure. Internal to
/// runtime/observe.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/observe/report_data.hpp"

namespace cohort::observe {

inline constexpr size_t k_color_count = 8;  // classes s0 … s7 in report_style.cpp

/// A linear axis over [low, high] with its ticks.
struct Axis {
  double low = 0;
  double high = 1;
  double step = 1;
  std::vector<double> ticks;
  std::vector<std::string> labels;
};

/// Returns an axis that covers [low, high] with about `count` round ticks. `is_widened` moves the
/// ends to ticks.
Axis make_axis(double low, double high, int count, AxisFormat format, bool is_widened);
/// Returns an axis of whole numbers, ends not moved.
Axis make_step_axis(double low, double high, int count);
/// Returns `value` for people, e.g. a tooltip: "71.9%", "81.2k", "1.5 MiB", "0.0123".
std::string format_value(double value, AxisFormat format);

/// The plot area in SVG units and the map from data to it.
struct Plot {
  double left = 0, top = 0, width = 1, height = 1;
  Axis x, y;
  double px(double value) const { return left + (value - x.low) / (x.high - x.low) * width; }
  double py(double value) const {
    return top + height - (value - y.low) / (y.high - y.low) * height;
  }
  double right() const { return left + width; }
  double bottom() const { return top + height; }
};

/// Returns the tick and its label below an x axis.
std::string x_tick(double x, double bottom, std::string_view label);
/// Returns the grid lines, tick labels and the label below the x axis.
std::string draw_axes(const Plot& plot, std::string_view x_label);
/// Returns the opening <svg …> for a drawing of width x height units that fills its container.
std::string open_svg(double width, double height, std::string_view label,
                     std::string_view css_class);
/// Returns about how many units wide `text` is at the charts' font size.
double text_units(std::string_view text);

/// A vertical interval around a point.
struct Interval {
  size_t series = 0;
  double x = 0, low = 0, high = 0;
};

struct LineChartOptions {
  double width = 340;
  double height = 190;
  std::string x_label = "step";
  std::optional<std::pair<double, double>> y_range;
  bool has_markers = false;           // a mark at every point
  bool has_reference_margin = false;  // labels of references right of the plot instead of inside
  std::vector<Interval> intervals;
  std::vector<bool> is_faint;  // per series: thin and without marks
};

/// Returns the <svg> of `chart`: NaN breaks a line, a lone point is a dot. Series k has class
/// "s<k>".
std::string line_chart(const ChartSpec& chart, const LineChartOptions& options);
/// Returns the legend as buttons that show and hide the series of the charts in the same <figure>.
std::string legend(const std::vector<std::string>& names);

}  // namespace cohort::observe
