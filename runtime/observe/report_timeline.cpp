/// Each card's work over time: a Gantt chart of a few steps, the transitions of one, and the time
/// per phase.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "runtime/observe/html.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/report_parts.hpp"
#include "runtime/observe/svg_chart.hpp"

namespace cohort::observe {

TimeWindow last_steps(const ReportData& data, size_t steps) {
  std::set<uint64_t> known;
  for (const ComputeSpan& span : data.compute) known.insert(span.step);
  if (known.empty()) {
    for (const Transition& transition : data.transitions) known.insert(transition.step);
  }
  TimeWindow window;
  if (known.empty() || steps == 0) return window;
  window.last_step = *known.rbegin();
  auto first = known.end();
  for (size_t i = 0; i < steps && first != known.begin(); ++i) --first;
  window.first_step = *first;
  window.start_s = std::numeric_limits<double>::infinity();
  window.end_s = -window.start_s;
  auto widen = [&](uint64_t step, double start_s, double end_s) {
    if (step >= window.first_step && step <= window.last_step) {
      window.start_s = std::min(window.start_s, start_s);
      window.end_s = std::max(window.end_s, end_s);
    }
  };
  for (const ComputeSpan& span : data.compute) widen(span.step, span.start_s, span.end_s);
  for (const Transition& transition : data.transitions)
    widen(transition.step, transition.start_s, transition.end_s);
  return window;
}

std::vector<CardInfo> cards_of(const ReportData& data) {
  std::vector<CardInfo> cards = data.cards;
  auto add = [&](uint32_t id) {
    if (std::ranges::find(cards, id, &CardInfo::card) == cards.end()) cards.push_back({id, "", 0});
  };
  for (const ComputeSpan& span : data.compute) add(span.card);
  for (const Transition& transition : data.transitions) add(transition.card);
  std::ranges::stable_sort(cards, {}, &CardInfo::card);
  return cards;
}

namespace {

constexpr double k_row_units = 50;
constexpr double k_bar_units = 24;
constexpr double k_move_units = 9;

struct Gantt {
  const ReportData& data;
  ReportColors& colors;
  TimeWindow window;
  double width, left;
  std::vector<CardInfo> cards;

  double x(double time_s) const {
    double unit = (time_s - window.start_s) / (window.end_s - window.start_s);
    return left + std::clamp(unit, 0.0, 1.0) * (width - left - 12);
  }
  /// Returns the top of the card's row, or a negative number if the card is not drawn.
  double row(uint32_t card) const {
    for (size_t i = 0; i < cards.size(); ++i) {
      if (cards[i].card == card) return 26 + static_cast<double>(i) * k_row_units;
    }
    return -1;
  }
  double bottom() const { return 26 + static_cast<double>(cards.size()) * k_row_units; }
  bool shows(uint64_t step) const { return step >= window.first_step && step <= window.last_step; }
};

std::string verb_of(const Transition& transition) {
  if (transition.to == "card") return transition.from == "absent" ? "allocate" : "onload";
  return transition.to == "absent" ? "free" : "offload";
}

std::string draw_rows(const Gantt& gantt) {
  std::string out = R"(<g class="axis">)";
  for (const CardInfo& card : gantt.cards) {
    double y = gantt.row(card.card);
    out += fmt::format(R"(<line class="grid" x1="0" x2="{:g}" y1="{:.1f}" y2="{:.1f}"/>)",
                       gantt.width, y - 4, y - 4);
    out += fmt::format(R"(<text class="name" x="2" y="{:.1f}">card {}</text>)", y + 14, card.card);
    out += fmt::format(R"(<text class="role" x="2" y="{:.1f}">{}</text>)", y + 28,
                       escape_html(card.role));
  }
  Axis axis =
      make_axis(0, gantt.window.end_s - gantt.window.start_s,
                static_cast<int>((gantt.width - gantt.left) / 90), AxisFormat::number, false);
  out += fmt::format(R"(<line class="base" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)",
                     gantt.left, gantt.width - 12, gantt.bottom(), gantt.bottom());
  for (size_t i = 0; i < axis.ticks.size(); ++i)
    out += x_tick(gantt.x(gantt.window.start_s + axis.ticks[i]), gantt.bottom(), axis.labels[i]);
  out += fmt::format(
      R"(<text class="unit" x="{:.1f}" y="{:.1f}" text-anchor="end">seconds, from {} into the)"
      R"( run</text>)",
      gantt.width - 12, gantt.bottom() + 31, format_duration(gantt.window.start_s));
  return out + "</g>";
}

/// Returns the vertical lines at which the shown steps begin.
std::string draw_step_lines(const Gantt& gantt) {
  std::map<uint64_t, double> begins;
  for (const ComputeSpan& span : gantt.data.compute) {
    if (!gantt.shows(span.step)) continue;
    auto [place, is_new] = begins.emplace(span.step, span.start_s);
    place->second = std::min(place->second, span.start_s);
  }
  std::string out = R"(<g class="steps">)";
  for (const auto& [step, begin_s] : begins) {
    double x = gantt.x(begin_s);
    out +=
        fmt::format(R"(<line x1="{:.1f}" x2="{:.1f}" y1="4" y2="{:.1f}"/>)", x, x, gantt.bottom());
    out += fmt::format(R"(<text x="{:.1f}" y="14">step {}</text>)", x + 4, step);
  }
  return out + "</g>";
}

std::string draw_spans(const Gantt& gantt) {
  std::string out;
  for (const ComputeSpan& span : gantt.data.compute) {
    if (!gantt.shows(span.step)) continue;
    double x = gantt.x(span.start_s);
    double width = std::max(1.0, gantt.x(span.end_s) - x);
    double y = gantt.row(span.card);
    size_t color = gantt.colors.phases.index_of(span.phase) % k_color_count;
    out += fmt::format(
        R"(<g class="bar s{}"><rect x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:g}" rx="2"/>)",
        color, x, y, width, k_bar_units);
    std::string duration = format_duration(span.end_s - span.start_s);
    std::string full = span.phase + " " + duration;
    std::string text = text_units(full) + 8 < width         ? full
                       : text_units(span.phase) + 8 < width ? span.phase
                                                            : "";
    if (!text.empty())
      out += fmt::format(R"(<text x="{:.1f}" y="{:.1f}">{}</text>)", x + 5, y + 16.5,
                         escape_html(text));
    out += fmt::format("<title>step {}, card {}: {} {}</title></g>", span.step, span.card,
                       escape_html(span.phase), duration);
  }
  return out;
}

std::string draw_moves(const Gantt& gantt) {
  std::string out;
  for (const Transition& move : gantt.data.transitions) {
    if (!gantt.shows(move.step)) continue;
    double x = gantt.x(move.start_s);
    double width = std::max(2.5, gantt.x(move.end_s) - x);  // most last less than a pixel
    out += fmt::format(
        R"(<rect class="move {}" x="{:.2f}" y="{:.1f}" width="{:.2f}" height="{:g}"><title>{} {})"
        R"( on card {}: {} in {}</title></rect>)",
        move.to == "card" ? "in" : "out", x, gantt.row(move.card) + k_bar_units + 4, width,
        k_move_units, verb_of(move), escape_html(move.object), move.card, format_bytes(move.bytes),
        format_duration(move.end_s - move.start_s));
  }
  return out;
}

std::string draw_gantt(const ReportData& data, ReportColors& colors, double width, size_t steps) {
  Gantt gantt{data, colors, last_steps(data, steps), width, 0, cards_of(data)};
  if (gantt.window.is_empty()) return "";
  double label_units = 50;
  for (const CardInfo& card : gantt.cards)
    label_units = std::max(label_units, text_units(card.role) + 12);
  gantt.left = std::min(label_units, width * 0.3);
  std::string out = open_svg(width, gantt.bottom() + 36, "what each card did when", "gantt");
  return out + draw_rows(gantt) + draw_step_lines(gantt) + draw_spans(gantt) + draw_moves(gantt) +
         "</svg>";
}

std::string phase_legend(const ReportData& data, ReportColors& colors, const TimeWindow& window) {
  std::vector<std::string> names;
  for (const ComputeSpan& span : data.compute) {
    if (span.step >= window.first_step && std::ranges::find(names, span.phase) == names.end())
      names.push_back(span.phase);
  }
  std::string out = R"(<div class="legend">)";
  for (const std::string& name : names)
    out += legend_key(colors.phases.index_of(name) % k_color_count, name);
  if (!data.transitions.empty())
    out += R"(<span class="key move in"><i></i>onto the card</span>)"
           R"(<span class="key move out"><i></i>off the card</span>)";
  return out + "</div>";
}

std::string moves_table(const ReportData& data, uint64_t step) {
  std::string rows;
  uint64_t total_bytes = 0;
  double total_s = 0;
  size_t count = 0;
  for (const Transition& move : data.transitions) {
    if (move.step != step) continue;
    total_bytes += move.bytes;
    total_s += move.end_s - move.start_s;
    ++count;
    rows += fmt::format(
        "<tr><td>{}</td><td class=\"num\">{}</td><td>{}</td><td>{}</td><td>{} → {}</td>"
        "<td class=\"num\">{}</td><td class=\"num\">{}</td></tr>\n",
        escape_html(move.phase), move.card, verb_of(move), escape_html(move.object),
        escape_html(move.from), escape_html(move.to), format_bytes(move.bytes),
        format_duration(move.end_s - move.start_s));
  }
  if (count == 0) return "";
  return fmt::format(
      "<details><summary>residency transitions of step {}: {} in {}, {} in all</summary>"
      "<div class=\"scroll\"><table><thead><tr><th>phase</th><th class=\"num\">card</th>"
      "<th>command</th><th>object</th><th>from → to</th><th class=\"num\">bytes</th>"
      "<th class=\"num\">time</th></tr></thead><tbody>\n{}</tbody></table></div></details>\n",
      step, count, format_duration(total_s), format_bytes(total_bytes), rows);
}

}  // namespace

std::string timeline_part(const ReportData& data, ReportColors& colors) {
  constexpr size_t k_steps_wide = 3;
  TimeWindow window = last_steps(data, k_steps_wide);
  if (window.is_empty()) return "";
  std::string out =
      "<figure class=\"card\"><figcaption><h3>what each card did when</h3></figcaption>";
  out += phase_legend(data, colors, window);
  out +=
      dual(draw_gantt(data, colors, k_wide, k_steps_wide), draw_gantt(data, colors, k_narrow, 1));
  out += "<p class=\"note\">The last steps of the run. Hover a bar for its numbers.</p></figure>\n";
  return out + moves_table(data, window.last_step);
}

namespace {

/// Mean seconds per phase of a run of steps.
struct TimeBin {
  uint64_t first = 0, last = 0;
  std::vector<double> seconds;
};

std::vector<std::string> phase_names(const std::vector<StepTimes>& steps) {
  std::vector<std::string> names;
  for (const StepTimes& step : steps) {
    for (const auto& [name, seconds] : step.phases) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::vector<TimeBin> bin_times(const std::vector<StepTimes>& steps,
                               const std::vector<std::string>& names, size_t bins_max) {
  size_t per_bin = (steps.size() + bins_max - 1) / bins_max;
  std::vector<TimeBin> bins;
  for (size_t begin = 0; begin < steps.size(); begin += per_bin) {
    size_t end = std::min(steps.size(), begin + per_bin);
    TimeBin bin{steps[begin].step, steps[end - 1].step, std::vector<double>(names.size(), 0.0)};
    for (size_t i = begin; i < end; ++i) {
      for (const auto& [name, seconds] : steps[i].phases) {
        auto place = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
        bin.seconds[place] += std::max(0.0, seconds) / static_cast<double>(end - begin);
      }
    }
    bins.push_back(std::move(bin));
  }
  return bins;
}

std::string draw_times(const std::vector<TimeBin>& bins, const std::vector<std::string>& names,
                       ReportColors& colors, double width, double height) {
  double most = 0;
  for (const TimeBin& bin : bins) {
    double sum = 0;
    for (double seconds : bin.seconds) sum += seconds;
    most = std::max(most, sum);
  }
  Plot plot;
  plot.y = make_axis(0, most, 4, AxisFormat::number, true);
  plot.left = 44;
  plot.top = 22;
  plot.width = width - plot.left - 12;
  plot.height = height - plot.top - 38;
  plot.x.low = -0.5;
  plot.x.high = static_cast<double>(bins.size()) - 0.5;
  size_t every = std::max<size_t>(1, bins.size() / static_cast<size_t>(plot.width / 45) + 1);
  for (size_t i = 0; i < bins.size(); i += every) {
    plot.x.ticks.push_back(static_cast<double>(i));
    plot.x.labels.push_back(std::to_string(bins[i].first));
  }
  std::string out = open_svg(width, height, "seconds per phase and step", "times");
  out += draw_axes(plot, "step");
  out += R"(<text class="unit" x="2" y="12">seconds per step</text>)";
  double bar = std::min(40.0, plot.width / static_cast<double>(bins.size()) * 0.8);
  for (size_t i = 0; i < bins.size(); ++i) {
    double base = 0;
    std::string steps = bins[i].first == bins[i].last
                            ? fmt::format("step {}", bins[i].first)
                            : fmt::format("steps {} to {}", bins[i].first, bins[i].last);
    for (size_t k = 0; k < names.size(); ++k) {
      double seconds = bins[i].seconds[k];
      if (seconds <= 0) continue;
      double top = plot.py(base + seconds);
      out += fmt::format(R"(<rect class="fill s{}" x="{:.1f}" y="{:.2f}" width="{:.1f}")"
                         R"( height="{:.2f}"><title>{}: {} {}</title></rect>)",
                         colors.phases.index_of(names[k]) % k_color_count,
                         plot.px(static_cast<double>(i)) - bar / 2, top, bar, plot.py(base) - top,
                         steps, escape_html(names[k]), format_duration(seconds));
      base += seconds;
    }
  }
  return out + "</svg>";
}

}  // namespace

std::string step_times_part(const ReportData& data, ReportColors& colors) {
  if (data.step_times.empty()) return "";
  std::vector<std::string> names = phase_names(data.step_times);
  std::vector<TimeBin> whole = bin_times(data.step_times, names, 1);
  double total = 0;
  for (double seconds : whole[0].seconds) total += seconds;
  if (total <= 0) return "";
  std::string out = "<figure class=\"card\"><figcaption><h3>time per phase</h3></figcaption>";
  out += R"(<div class="legend">)";
  for (size_t k = 0; k < names.size(); ++k)
    out += legend_key(colors.phases.index_of(names[k]) % k_color_count,
                      fmt::format("{} {} ({:.0f}%)", names[k], format_duration(whole[0].seconds[k]),
                                  whole[0].seconds[k] / total * 100));
  out += fmt::format("<span class=\"key\">mean step {}</span></div>", format_duration(total));
  out += dual(draw_times(bin_times(data.step_times, names, 80), names, colors, k_wide, 240),
              draw_times(bin_times(data.step_times, names, 30), names, colors, k_narrow, 220));
  return out + "</figure>\n";
}

}  // namespace cohort::observe
