/// Each card's contents over a few steps: stacked bytes per object against the card's budget.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/observe/html.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/report_parts.hpp"
#include "runtime/observe/svg_chart.hpp"

namespace cohort::observe {
namespace {

/// Bytes of each object on one card from `time_s` on.
struct Level {
  double time_s = 0;
  std::map<std::string, uint64_t> bytes;
  uint64_t total() const {
    uint64_t sum = 0;
    for (const auto& [object, size] : bytes) sum += size;
    return sum;
  }
};

/// Sums up the transitions of `card`: an object counts from the start of its way in to the end of
/// its way out, as PLACE-2 counts it.
std::vector<Level> levels_of(const ReportData& data, uint32_t card) {
  struct Change {
    double time_s;
    const Transition* move;
  };
  std::vector<Change> changes;
  for (const Transition& move : data.transitions) {
    if (move.card == card)
      changes.push_back({move.to == "card" ? move.start_s : move.end_s, &move});
  }
  std::ranges::stable_sort(changes, {}, &Change::time_s);
  std::vector<Level> levels = {{}};
  for (const Change& change : changes) {
    Level next = levels.back();
    next.time_s = change.time_s;
    if (change.move->to == "card")
      next.bytes[change.move->object] = change.move->bytes;
    else
      next.bytes.erase(change.move->object);
    levels.push_back(std::move(next));
  }
  return levels;
}

/// Returns the levels inside `window`, the first one moved to its start.
std::vector<Level> cut_levels(const std::vector<Level>& levels, const TimeWindow& window) {
  std::vector<Level> out;
  for (const Level& level : levels) {
    if (level.time_s > window.end_s) break;
    if (level.time_s <= window.start_s) out.clear();
    out.push_back(level);
    out.back().time_s = std::max(level.time_s, window.start_s);
  }
  return out;
}

struct CardChart {
  const CardInfo& card;
  std::vector<Level> levels;
  TimeWindow window;
  std::vector<std::string> objects;  // bottom of the stack first
  uint64_t peak_bytes = 0;
};

/// Returns the outline of the stack from object 0 up to and without `upto`, left to right, as
/// steps.
std::vector<Point> stack_line(const CardChart& chart, size_t upto) {
  std::vector<Point> line;
  for (size_t i = 0; i < chart.levels.size(); ++i) {
    uint64_t sum = 0;
    for (size_t k = 0; k < upto; ++k) {
      auto found = chart.levels[i].bytes.find(chart.objects[k]);
      sum += found == chart.levels[i].bytes.end() ? 0 : found->second;
    }
    double end_s = i + 1 < chart.levels.size() ? chart.levels[i + 1].time_s : chart.window.end_s;
    line.push_back({chart.levels[i].time_s, static_cast<double>(sum)});
    line.push_back({end_s, static_cast<double>(sum)});
  }
  return line;
}

std::string draw_areas(const CardChart& chart, const Plot& plot, ReportColors& colors) {
  std::string out;
  for (size_t k = 0; k < chart.objects.size(); ++k) {
    std::vector<Point> upper = stack_line(chart, k + 1);
    std::vector<Point> lower = stack_line(chart, k);
    std::string points;
    uint64_t most = 0;
    for (const Level& level : chart.levels) {
      auto found = level.bytes.find(chart.objects[k]);
      most = std::max(most, found == level.bytes.end() ? 0 : found->second);
    }
    auto add = [&](const Point& point) {
      points += fmt::format("{}{:.2f},{:.2f}", points.empty() ? "" : " ",
                            plot.px(point.x - chart.window.start_s), plot.py(point.y));
    };
    std::ranges::for_each(upper, add);
    for (size_t i = lower.size(); i-- > 0;) add(lower[i]);
    out += fmt::format(R"(<polygon class="fill s{}" points="{}"><title>{}: {}</title></polygon>)",
                       colors.objects.index_of(chart.objects[k]) % k_color_count, points,
                       escape_html(chart.objects[k]), format_bytes(most));
  }
  return out;
}

std::string draw_card(const CardChart& chart, ReportColors& colors, double width) {
  auto peak = static_cast<double>(chart.peak_bytes);
  auto budget = static_cast<double>(chart.card.budget_bytes);
  constexpr double k_lost = 0.3;  // below it the areas would be a thin strip under an empty plot
  bool shows_budget = budget > 0 && peak >= k_lost * budget;
  Plot plot;
  plot.y = make_axis(0, std::max(1.0, shows_budget ? std::max(budget, peak) * 1.04 : peak * 1.15),
                     4, AxisFormat::bytes, false);
  plot.left = 66;
  plot.top = 22;
  plot.width = width - plot.left - 14;
  constexpr double k_height = 210;
  plot.height = k_height - plot.top - 38;
  plot.x = make_axis(0, chart.window.end_s - chart.window.start_s, 4, AxisFormat::number, false);
  std::string out = open_svg(width, k_height, "bytes on the card over time", "residency");
  out += draw_axes(plot, "seconds");
  out += draw_areas(chart, plot, colors);
  if (shows_budget) {
    double y = plot.py(budget);
    out += fmt::format(
        R"(<g class="budget"><line x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/><text)"
        R"( x="{:.1f}" y="{:.1f}" text-anchor="end">budget {}</text></g>)",
        plot.left, plot.right(), y, y, plot.right(), y - 5, format_bytes(chart.card.budget_bytes));
  } else if (budget > 0) {
    out += fmt::format(
        R"(<g class="budget"><text x="{:.1f}" y="12" text-anchor="end">budget {} is above the)"
        R"( axis ↑</text></g>)",
        plot.right(), format_bytes(chart.card.budget_bytes));
  }
  return out + "</svg>";
}

std::string card_figure(const CardChart& chart, ReportColors& colors) {
  std::string title = fmt::format("card {}", chart.card.card);
  if (!chart.card.role.empty()) title += " · " + chart.card.role;
  std::string out = fmt::format("<figure class=\"card\"><figcaption><h3>{}</h3></figcaption>",
                                escape_html(title));
  out += R"(<div class="legend">)";
  for (const std::string& object : chart.objects)
    out += legend_key(colors.objects.index_of(object) % k_color_count, object);
  out += "</div>" +
         dual(draw_card(chart, colors, k_wide / 2 - 30), draw_card(chart, colors, k_narrow));
  out += fmt::format("<p class=\"note\">peak {}", format_bytes(chart.peak_bytes));
  if (chart.card.budget_bytes > 0)
    out += fmt::format(", {} of the budget of {}",
                       format_percent(static_cast<double>(chart.peak_bytes) /
                                      static_cast<double>(chart.card.budget_bytes)),
                       format_bytes(chart.card.budget_bytes));
  return out + "</p></figure>\n";
}

}  // namespace

std::string residency_part(const ReportData& data, ReportColors& colors) {
  TimeWindow window = last_steps(data, 2);
  if (window.is_empty() || data.transitions.empty()) return "";
  std::string out;
  for (const CardInfo& card : cards_of(data)) {
    CardChart chart{card, cut_levels(levels_of(data, card.card), window), window, {}, 0};
    for (const Level& level : chart.levels) {
      chart.peak_bytes = std::max(chart.peak_bytes, level.total());
      for (const auto& [object, bytes] : level.bytes) {
        if (std::ranges::find(chart.objects, object) == chart.objects.end())
          chart.objects.push_back(object);
      }
    }
    if (!chart.objects.empty()) out += card_figure(chart, colors);
  }
  if (out.empty()) return "";
  return fmt::format(
      "<div class=\"pairs\">\n{}</div><p class=\"note\">Steps {} to {}; bytes as measured at each "
      "acknowledged transition.</p>",
      out, window.first_step, window.last_step);
}

}  // namespace cohort::observe
