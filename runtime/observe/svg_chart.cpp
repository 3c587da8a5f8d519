#include "runtime/observe/svg_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/observe/html.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/terminal.hpp"

namespace cohort::observe {
namespace {

constexpr double k_char_units = 6.1;  // mean width of a character at 11 px
constexpr double k_label_height = 13;

/// Returns the round step (1, 2, 2.5 or 5 times a power of ten) that cuts `range` into about
/// `count` parts.
double round_step(double range, int count) {
  double rough = range / std::max(1, count);
  double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (rough <= factor * power * 1.0001) return factor * power;
  }
  return 10 * power;
}

std::string tick_label(double value, double step, AxisFormat format, double high) {
  if (std::abs(value) < step * 1e-6) value = 0;
  auto decimals_of = [](double s) {
    int decimals = 0;
    while (decimals < 8 && std::abs(s - std::round(s)) > 1e-6 * std::max(1.0, std::abs(s))) {
      s *= 10;
      ++decimals;
    }
    return decimals;
  };
  if (format == AxisFormat::percent)
    return fmt::format("{:.{}f}%", value * 100, decimals_of(step * 100));
  if (format == AxisFormat::bytes)
    return format_bytes(static_cast<uint64_t>(std::llround(std::max(0.0, value))));
  if (format == AxisFormat::count || std::abs(high) >= 1e5) return format_count(value);
  if (step < 1e-4 && value != 0) {
    int exponent = static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9));
    double mantissa = value / std::pow(10.0, exponent);
    return fmt::format("{:.{}f}e{}", mantissa, decimals_of(std::round(mantissa * 100) / 100),
                       exponent);
  }
  return fmt::format("{:.{}f}", value, decimals_of(step));
}

void fill_ticks(Axis& axis, AxisFormat format) {
  double first = std::ceil(axis.low / axis.step - 1e-6);
  double last = std::floor(axis.high / axis.step + 1e-6);
  for (double k = first; k <= last && axis.ticks.size() < 64; ++k) {
    axis.ticks.push_back(k * axis.step);
    axis.labels.push_back(tick_label(k * axis.step, axis.step, format, axis.high));
  }
}

}  // namespace

Axis make_axis(double low, double high, int count, AxisFormat format, bool is_widened) {
  if (!(high > low)) {
    double middle = std::isfinite(low) ? low : 0;
    double air = middle != 0 ? std::abs(middle) * 0.1 : 1;
    low = middle > 0 ? middle - air : middle == 0 ? 0 : middle - air;
    high = middle + air;
  }
  Axis axis;
  double unit = 1;
  if (format == AxisFormat::bytes) {
    while (high / unit >= 1024) unit *= 1024;
  }
  axis.step = round_step((high - low) / unit, count) * unit;
  axis.low = is_widened ? std::floor(low / axis.step + 1e-6) * axis.step : low;
  axis.high = is_widened ? std::ceil(high / axis.step - 1e-6) * axis.step : high;
  fill_ticks(axis, format);
  return axis;
}

Axis make_step_axis(double low, double high, int count) {
  if (!(high > low)) {
    low -= 0.5;
    high += 0.5;
  }
  Axis axis;
  axis.low = low;
  axis.high = high;
  axis.step = std::max(1.0, round_step(high - low, count));
  if (axis.step == 2.5) axis.step = 5;
  fill_ticks(axis, AxisFormat::number);
  return axis;
}

std::string format_value(double value, AxisFormat format) {
  if (!std::isfinite(value)) return "-";
  if (format == AxisFormat::percent) return format_percent(value);
  if (format == AxisFormat::count) return format_count(value);
  if (format == AxisFormat::bytes) return format_bytes(static_cast<uint64_t>(std::max(0.0, value)));
  return format == AxisFormat::seconds ? format_duration(value) : format_number(value);
}

double text_units(std::string_view text) {
  return k_char_units * static_cast<double>(cell_count(text));
}

std::string open_svg(double width, double height, std::string_view label,
                     std::string_view css_class) {
  return fmt::format(R"(<svg class="{}" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">)",
                     css_class, width, height, escape_html(label));
}

std::string x_tick(double x, double bottom, std::string_view label) {
  return fmt::format(R"(<line class="base" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)"
                     R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)",
                     x, x, bottom, bottom + 4, x, bottom + 16, escape_html(label));
}

std::string draw_axes(const Plot& plot, std::string_view x_label) {
  std::string out = R"(<g class="axis">)";
  for (size_t i = 0; i < plot.y.ticks.size(); ++i) {
    double y = plot.py(plot.y.ticks[i]);
    out += fmt::format(R"(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)",
                       plot.left, plot.right(), y, y);
    out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", plot.left - 6,
                       y + 4, escape_html(plot.y.labels[i]));
  }
  out += fmt::format(R"(<line class="base" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)",
                     plot.left, plot.right(), plot.bottom(), plot.bottom());
  for (size_t i = 0; i < plot.x.ticks.size(); ++i)
    out += x_tick(plot.px(plot.x.ticks[i]), plot.bottom(), plot.x.labels[i]);
  if (!x_label.empty())
    out += fmt::format(R"(<text class="unit" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)",
                       plot.right(), plot.bottom() + 31, escape_html(x_label));
  return out + "</g>";
}

namespace {

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    if (std::isfinite(value)) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  bool is_empty() const { return low > high; }
};

/// Returns the y axis: the given range, or that of the data, from 0 if that costs little room.
Axis y_axis_of(const ChartSpec& chart, const LineChartOptions& options) {
  int count = options.height > 250 ? 5 : 4;
  if (options.y_range)
    return make_axis(options.y_range->first, options.y_range->second, count, chart.y_format, false);
  Range range;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) range.add(point.y);
  }
  for (const ReferenceLine& reference : chart.references) range.add(reference.value);
  if (range.is_empty()) range = {0, 1};
  if (range.low > 0 && range.low < 0.4 * range.high) range.low = 0;
  return make_axis(range.low, range.high, count, chart.y_format, true);
}

std::string draw_mark(double x, double y, size_t series) {
  if (series % 2 == 0)
    return fmt::format(R"(<circle class="mark" cx="{:.1f}" cy="{:.1f}" r="3.5"/>)", x, y);
  return fmt::format(R"(<rect class="mark" x="{:.1f}" y="{:.1f}" width="6.4" height="6.4"/>)",
                     x - 3.2, y - 3.2);
}

std::string draw_series(const Plot& plot, const Series& series, size_t k, bool has_markers,
                        bool is_faint) {
  std::string lines;
  std::string marks;
  std::string points;
  size_t count = 0;
  double last_x = 0;
  double last_y = 0;
  auto end_line = [&] {
    if (count > 0) lines += fmt::format(R"(<polyline points="{}"/>)", points);
    if (count == 1 && !has_markers) marks += draw_mark(last_x, last_y, k);
    points.clear();
    count = 0;
  };
  for (const Point& point : series.points) {
    if (!std::isfinite(point.y)) {
      end_line();
      continue;
    }
    last_x = plot.px(point.x);
    last_y = plot.py(std::clamp(point.y, plot.y.low, plot.y.high));
    points += fmt::format("{}{:.2f},{:.2f}", count == 0 ? "" : " ", last_x, last_y);
    if (has_markers) marks += draw_mark(last_x, last_y, k);
    ++count;
  }
  end_line();
  return fmt::format(R"(<g class="series s{}{}" data-k="{}" data-name="{}">{}{}</g>)",
                     k % k_color_count, is_faint ? " faint" : "", k, escape_html(series.name),
                     lines, marks);
}

/// Returns the y of each label so that none overlaps its neighbour; `wanted` must be sorted
/// downwards.
std::vector<double> spread_labels(std::vector<double> wanted, double top, double bottom) {
  for (size_t i = 1; i < wanted.size(); ++i)
    wanted[i] = std::max(wanted[i], wanted[i - 1] + k_label_height);
  double limit = bottom;
  for (size_t i = wanted.size(); i-- > 0; limit = wanted[i] - k_label_height)
    wanted[i] = std::min(wanted[i], limit);
  for (double& y : wanted) y = std::max(y, top);
  return wanted;
}

/// Returns the lines of the references and, to be drawn above the curves, their labels.
std::pair<std::string, std::string> draw_references(const Plot& plot, const ChartSpec& chart,
                                                    bool has_margin) {
  std::vector<ReferenceLine> references;
  for (const ReferenceLine& reference : chart.references) {
    if (reference.value >= plot.y.low && reference.value <= plot.y.high)
      references.push_back(reference);
  }
  std::ranges::stable_sort(references, std::greater<>{}, &ReferenceLine::value);
  std::vector<double> wanted;
  for (const ReferenceLine& reference : references)
    wanted.push_back(plot.py(reference.value) + (has_margin ? 4 : -4));
  wanted = spread_labels(std::move(wanted), plot.top + 8, plot.bottom());
  std::string lines = R"(<g class="reference">)";
  std::string labels = lines;
  for (size_t i = 0; i < references.size(); ++i) {
    double y = plot.py(references[i].value);
    lines += fmt::format(R"(<line x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)", plot.left,
                         plot.right(), y, y);
    std::string label =
        fmt::format("{} {}", references[i].name, format_value(references[i].value, chart.y_format));
    double x = has_margin ? plot.right() + 8 : plot.right() - 4;
    labels += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)", x, wanted[i],
                          has_margin ? "start" : "end", escape_html(label));
  }
  return {lines + "</g>", labels + "</g>"};
}

std::string draw_intervals(const Plot& plot, const std::vector<Interval>& intervals) {
  std::string out;
  for (const Interval& interval : intervals) {
    double x = plot.px(interval.x);
    out += fmt::format(
        R"(<line class="interval s{}" data-k="{}" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}")"
        R"( y2="{:.1f}"/>)",
        interval.series % k_color_count, interval.series, x, x,
        plot.py(std::max(interval.low, plot.y.low)), plot.py(std::min(interval.high, plot.y.high)));
  }
  return out;
}

std::string_view format_name(AxisFormat format) {
  constexpr std::array<std::string_view, 5> k_names = {"number", "percent", "count", "bytes",
                                                       "seconds"};
  return k_names[static_cast<size_t>(format)];
}

/// Lays out the plot area: the left margin fits the widest tick, the right one the reference
/// labels.
Plot lay_out(const ChartSpec& chart, const LineChartOptions& options) {
  Plot plot;
  plot.y = y_axis_of(chart, options);
  Range x;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) x.add(point.x);
  }
  if (x.is_empty()) x = {0, 1};
  double label_units = 0;
  for (const std::string& label : plot.y.labels)
    label_units = std::max(label_units, text_units(label));
  double right = 14;
  if (options.has_reference_margin) {
    for (const ReferenceLine& reference : chart.references)
      right = std::max(right, 16 + text_units(reference.name + " " +
                                              format_value(reference.value, chart.y_format)));
  }
  plot.left = label_units + 14;
  plot.top = chart.y_unit.empty() ? 10 : 24;
  plot.width = options.width - plot.left - right;
  plot.height = options.height - plot.top - (options.x_label.empty() ? 24 : 38);
  plot.x = make_step_axis(x.low, x.high, static_cast<int>(plot.width / 70));
  return plot;
}

}  // namespace

std::string line_chart(const ChartSpec& chart, const LineChartOptions& options) {
  Plot plot = lay_out(chart, options);
  std::string out = open_svg(options.width, options.height, chart.title, "line ");
  out += fmt::format(R"(<desc data-box="{:.2f} {:.2f} {:.2f} {:.2f}" data-x="{} {}" data-y="{} {}")"
                     R"( data-format="{}"></desc>)",
                     plot.left, plot.top, plot.width, plot.height, plot.x.low, plot.x.high,
                     plot.y.low, plot.y.high, format_name(chart.y_format));
  out += draw_axes(plot, options.x_label);
  if (!chart.y_unit.empty())
    out += fmt::format(R"(<text class="unit" x="2" y="12">{}</text>)", escape_html(chart.y_unit));
  auto [reference_lines, reference_labels] =
      draw_references(plot, chart, options.has_reference_margin);
  out += reference_lines;
  out += draw_intervals(plot, options.intervals);
  for (size_t k = 0; k < chart.series.size(); ++k) {
    bool is_faint = k < options.is_faint.size() && options.is_faint[k];
    out += draw_series(plot, chart.series[k], k, options.has_markers && !is_faint, is_faint);
  }
  out += reference_labels;
  out += fmt::format(R"(<line class="cursor" y1="{:.1f}" y2="{:.1f}" x1="0" x2="0"/>)", plot.top,
                     plot.bottom());
  return out + "</svg>";
}

std::string legend(const std::vector<std::string>& names) {
  std::string out = R"(<div class="legend">)";
  for (size_t k = 0; k < names.size(); ++k)
    out += fmt::format(R"(<button type="button" class="key s{}" data-k="{}")"
                       R"( aria-pressed="true"><i></i>{}</button>)",
                       k % k_color_count, k, escape_html(names[k]));
  return out + "</div>";
}

}  // namespace cohort::observe
