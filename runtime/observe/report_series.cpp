/// Headlines, the learning curve and the small multiples; and the charts of the standard metrics.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "runtime/observe/html.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/report_parts.hpp"
#include "runtime/observe/svg_chart.hpp"

namespace cohort::observe {
namespace {

// -- headlines ---------------------------------------------------------------

/// Returns a 0..100 % track with the references as ticks and before → after as a dumbbell.
std::string dumbbell(double before, double after, const std::vector<ReferenceLine>& references,
                     size_t color) {
  constexpr double k_width = 300;
  constexpr double k_y = 16;
  auto x = [](double value) { return 6 + std::clamp(value, 0.0, 1.0) * (k_width - 12); };
  std::string out = open_svg(k_width, 30, "before and after on a scale of 0 to 100 %", "dumbbell");
  out += fmt::format(R"(<line class="track" x1="6" x2="{:g}" y1="{:g}" y2="{:g}"/>)", k_width - 6,
                     k_y, k_y);
  for (const ReferenceLine& reference : references)
    out += fmt::format(
        R"(<line class="tick" x1="{:.1f}" x2="{:.1f}" y1="5" y2="27"><title>{} {}</title></line>)",
        x(reference.value), x(reference.value), escape_html(reference.name),
        format_percent(reference.value));
  if (std::isfinite(before) && std::isfinite(after))
    out += fmt::format(R"(<line class="change s{}" x1="{:.1f}" x2="{:.1f}" y1="{:g}" y2="{:g}"/>)",
                       color, x(before), x(after), k_y, k_y);
  if (std::isfinite(before))
    out += fmt::format(R"(<circle class="before s{}" cx="{:.1f}" cy="{:g}" r="5"/>)", color,
                       x(before), k_y);
  if (std::isfinite(after))
    out += fmt::format(R"(<circle class="after s{}" cx="{:.1f}" cy="{:g}" r="6"/>)", color,
                       x(after), k_y);
  return out + "</svg>";
}

std::string references_text(std::vector<ReferenceLine> references) {
  std::ranges::stable_sort(references, {}, &ReferenceLine::value);
  std::string out;
  for (const ReferenceLine& reference : references)
    out += fmt::format("{}{} {}", out.empty() ? "ticks: " : " · ", reference.name,
                       format_percent(reference.value));
  return out;
}

std::string success_headline(const ReportData& data, std::string_view how,
                             double Evaluation::*value, size_t color) {
  double before = k_not_measured;
  double after = k_not_measured;
  for (const Evaluation& evaluation : data.evaluations) {
    if (!std::isfinite(evaluation.*value)) continue;
    if (!std::isfinite(before)) before = evaluation.*value;
    after = evaluation.*value;
  }
  if (!std::isfinite(after)) return "";
  std::string out = fmt::format("<div class=\"headline\"><h3>held-out success, {}</h3>", how);
  out += fmt::format("<p class=\"big\">{} <span>→</span> {} <small>{:+.1f} points</small></p>",
                     format_percent(before), format_percent(after), (after - before) * 100);
  out += dumbbell(before, after, data.references, color);
  if (!data.references.empty())
    out += fmt::format("<p class=\"note\">{}</p>", escape_html(references_text(data.references)));
  return out + "</div>\n";
}

// -- learning curve ------------------------------------------------------------

/// Returns the 95 % Wilson interval of `fraction` successes in `count` trials.
std::pair<double, double> wilson_interval(double fraction, double count) {
  constexpr double k_z = 1.96;  // 97.5 % quantile of the normal distribution
  double z2 = k_z * k_z / count;
  double centre = (fraction + z2 / 2) / (1 + z2);
  double half = k_z * std::sqrt(fraction * (1 - fraction) / count + z2 / (4 * count)) / (1 + z2);
  return {centre - half, centre + half};
}

/// Returns whether the training reward can share the axis of a success rate.
bool is_like_success(const Series& reward) {
  return !reward.points.empty() && std::ranges::all_of(reward.points, [](const Point& point) {
    return !std::isfinite(point.y) || (point.y >= -0.2 && point.y <= 1.0001);
  });
}

constexpr double Evaluation::*k_success[] = {&Evaluation::sampled, &Evaluation::greedy};

ChartSpec learning_chart(const ReportData& data) {
  ChartSpec chart;
  chart.title = "held-out success by policy step";
  chart.y_format = AxisFormat::percent;
  chart.references = data.references;
  chart.series = {{"sampled (temperature 1)", {}}, {"greedy", {}}};
  for (const Evaluation& evaluation : data.evaluations)
    for (size_t k = 0; k < std::size(k_success); ++k)
      if (double success = evaluation.*k_success[k]; std::isfinite(success))
        chart.series[k].points.push_back({static_cast<double>(evaluation.step), success});
  if (is_like_success(data.train_reward)) chart.series.push_back(data.train_reward);
  return chart;
}

std::vector<Interval> learning_intervals(const ReportData& data) {
  std::vector<Interval> intervals;
  if (data.evaluation_maps == 0) return intervals;
  auto count = static_cast<double>(data.evaluation_maps);
  for (const Evaluation& evaluation : data.evaluations) {
    for (size_t k = 0; k < std::size(k_success); ++k) {
      if (!std::isfinite(evaluation.*k_success[k])) continue;
      auto [low, high] = wilson_interval(evaluation.*k_success[k], count);
      intervals.push_back({k, static_cast<double>(evaluation.step), low, high});
    }
  }
  return intervals;
}

// -- standard metrics --------------------------------------------------------------

struct StandardSeries {
  std::string_view chart, unit, note;  // series of one chart stand together
  AxisFormat format;
  std::string_view label;
  std::string_view names;  // separated by spaces; the first that occurs is taken
};

constexpr std::string_view k_entropy = "falls as the policy commits; near 0 it stops exploring";
constexpr std::string_view k_mixed = "only groups with both outcomes carry a gradient";
constexpr std::string_view k_share = "step time that is not on the critical path of compute";
constexpr AxisFormat k_number = AxisFormat::number, k_percent = AxisFormat::percent;
constexpr AxisFormat k_count = AxisFormat::count;

constexpr StandardSeries k_standard[] = {
    {"loss", "", "", k_number, "loss", "loss pg_loss"},
    {"entropy", "nats per token", k_entropy, k_number, "entropy", "entropy"},
    {"KL", "nats per token", "", k_number, "to the sampling policy", "approx_kl approxkl policykl"},
    {"KL", "nats per token", "", k_number, "to the reference", "kl kl_loss ref_kl"},
    {"clip fraction", "of tokens", "healthy below about 5%", k_percent, "clipped",
     "clip_fraction clipfrac clip_frac"},
    {"gradient norm", "", "before clipping", k_number, "gradient norm", "grad_norm"},
    {"learning rate", "", "", k_number, "learning rate", "lr learning_rate"},
    {"tokens per second", "tokens/s", "", k_count, "generation",
     "generate_tokens_per_s tokens_per_s/generate gen_tokens_per_s"},
    {"tokens per second", "tokens/s", "", k_count, "training",
     "train_tokens_per_s tokens_per_s/train update_tokens_per_s"},
    {"tokens per second", "tokens/s", "", k_count, "whole step", "tokens_per_s"},
    {"mixed groups", "of groups", k_mixed, k_percent, "mixed", "mixed_groups mixed_group_fraction"},
    {"valid answers", "of turns", "", k_percent, "valid", "action_is_valid valid_fraction"},
    {"valid answers", "of turns", "", k_percent, "effective",
     "action_is_effective effective_fraction"},
    {"turns per trajectory", "turns", "", k_number, "turns", "num_actions turns"},
    {"orchestrator share", "of the step", k_share, k_percent, "share", "orchestrator_share"},
    {"step time", "s", "", k_number, "step", "time/step_s step_s"}};

/// Returns whether the metric `name` is called `wanted`, with any "folder/" before and "/mean"
/// behind it.
bool is_called(std::string_view name, std::string_view wanted) {
  if (name.starts_with("val/")) return false;
  if (name.ends_with("/mean")) name.remove_suffix(5);
  return name == wanted || (name.size() > wanted.size() && name.ends_with(wanted) &&
                            name[name.size() - wanted.size() - 1] == '/');
}

std::optional<std::string> find_metric(std::span<const MetricRow> rows, std::string_view names) {
  while (!names.empty()) {
    std::string_view wanted = names.substr(0, names.find(' '));
    names.remove_prefix(std::min(wanted.size() + 1, names.size()));
    for (const MetricRow& row : rows) {
      for (const Metric& metric : row.metrics()) {
        if (is_called(metric.name, wanted) && std::holds_alternative<double>(metric.value))
          return metric.name;
      }
    }
  }
  return std::nullopt;
}

std::string small_chart(const ChartSpec& chart) {
  LineChartOptions options;
  options.width = k_narrow;
  std::string out = fmt::format("<figure class=\"card\"><figcaption><h3>{}</h3></figcaption>",
                                escape_html(chart.title));
  if (chart.series.size() > 1) {
    std::vector<std::string> names;
    for (const Series& series : chart.series) names.push_back(series.name);
    out += legend(names);
  }
  out += line_chart(chart, options);
  if (!chart.note.empty()) out += fmt::format("<p class=\"note\">{}</p>", escape_html(chart.note));
  return out + "</figure>\n";
}

bool has_points(const Series& series) {
  return std::ranges::any_of(series.points, [](const Point& p) { return std::isfinite(p.y); });
}

}  // namespace

std::string headline_part(const ReportData& data) {
  std::string out = success_headline(data, "sampled", &Evaluation::sampled, 0);
  out += success_headline(data, "greedy", &Evaluation::greedy, 1);
  std::string numbers;
  for (const Fact& fact : data.headlines) numbers += small_headline(fact.name, fact.value);
  if (!numbers.empty()) numbers = "<div class=\"numbers\">" + numbers + "</div>\n";
  return out.empty() ? numbers : "<div class=\"headlines\">\n" + out + "</div>\n" + numbers;
}

std::string learning_part(const ReportData& data) {
  ChartSpec chart = learning_chart(data);
  bool has_any = std::ranges::any_of(chart.series, has_points);
  if (!has_any) return "";
  LineChartOptions options;
  options.y_range = {0.0, 1.0};
  options.has_markers = true;
  options.intervals = learning_intervals(data);
  options.is_faint = {false, false, true};
  options.x_label = "policy step";
  if (!data.evaluations.empty() && data.evaluations.back().trajectories > 0)
    options.x_label +=
        fmt::format(" ({} trajectories by step {})",
                    format_count(static_cast<double>(data.evaluations.back().trajectories)),
                    data.evaluations.back().step);
  options.width = k_wide;
  options.height = 360;
  options.has_reference_margin = true;
  std::string wide = line_chart(chart, options);
  options.width = k_narrow;
  options.height = 300;
  options.has_reference_margin = false;
  std::string narrow = line_chart(chart, options);
  std::vector<std::string> names;
  for (const Series& series : chart.series) names.push_back(series.name);
  std::string out = "<figure class=\"card\">" + legend(names) + dual(wide, narrow);
  if (data.evaluation_maps > 0)
    out += fmt::format(
        "<p class=\"note\">Held-out success on {} cases that training never sees; bars are 95% "
        "intervals. Dashed lines are scripted players.</p>",
        data.evaluation_maps);
  return out + "</figure>";
}

std::string charts_part(const ReportData& data) {
  std::string out;
  if (has_points(data.train_reward) && !is_like_success(data.train_reward)) {
    ChartSpec reward;
    reward.title = "training reward";
    reward.series = {data.train_reward};
    out += small_chart(reward);
  }
  for (const ChartSpec& chart : data.charts) {
    if (std::ranges::any_of(chart.series, has_points)) out += small_chart(chart);
  }
  return out.empty() ? "" : "<div class=\"multiples\">\n" + out + "</div>";
}

Series series_of(std::span<const MetricRow> rows, std::string_view metric, std::string_view label) {
  Series series{std::string(label), {}};
  for (const MetricRow& row : rows) {
    if (auto value = row.number(metric))
      series.points.push_back({static_cast<double>(row.step()), *value});
  }
  return series;
}

std::vector<ChartSpec> standard_charts(std::span<const MetricRow> rows) {
  std::vector<ChartSpec> charts;
  for (const StandardSeries& wanted : k_standard) {
    auto name = find_metric(rows, wanted.names);
    if (!name) continue;
    if (charts.empty() || charts.back().title != wanted.chart)
      charts.push_back({std::string(wanted.chart),
                        std::string(wanted.unit),
                        wanted.format,
                        std::string(wanted.note),
                        {},
                        {}});
    charts.back().series.push_back(series_of(rows, *name, wanted.label));
  }
  std::erase_if(charts, [](const ChartSpec& chart) {
    return std::ranges::none_of(chart.series, has_points);
  });
  return charts;
}

std::vector<StepTimes> step_times_of(std::span<const MetricRow> rows) {
  constexpr std::string_view k_prefix = "time/";
  constexpr std::string_view k_suffix = "_s";
  std::vector<StepTimes> out;
  for (const MetricRow& row : rows) {
    StepTimes times{row.step(), {}};
    for (const Metric& metric : row.metrics()) {
      std::string_view name = metric.name;
      const auto* seconds = std::get_if<double>(&metric.value);
      if (seconds == nullptr || !name.starts_with(k_prefix) || !name.ends_with(k_suffix)) continue;
      name.remove_prefix(k_prefix.size());
      name.remove_suffix(k_suffix.size());
      if (name != "step" && std::isfinite(*seconds)) times.phases.emplace_back(name, *seconds);
    }
    if (!times.phases.empty()) out.push_back(std::move(times));
  }
  return out;
}

}  // namespace cohort::observe
