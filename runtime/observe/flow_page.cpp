#include "runtime/observe/flow_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/observe/html.hpp"
#include "runtime/observe/page_shell.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/report_parts.hpp"
#include "runtime/observe/run_stages.hpp"
#include "runtime/observe/svg_chart.hpp"

namespace cohort::observe {
namespace {

constexpr size_t k_drawn_cards = 16;
constexpr int k_look_ms = 1000;

std::string refresh(const RunView& run) { return is_over(run) ? "" : refresh_mark(k_look_ms); }

/// What report.html's drawings need, of the first cards.
ReportData timeline_data(const RunView& run) {
  ReportData data;
  std::set<uint32_t> drawn;
  for (const CardView& card : run.cards) {
    if (drawn.size() == k_drawn_cards) break;
    drawn.insert(card.card);
    data.cards.push_back({card.card, card.role, card.budget_bytes});
  }
  if (run.held != nullptr)
    for (const Transition& move : *run.held)
      if (drawn.contains(move.card)) data.transitions.push_back(move);
  for (const auto& move : run.transitions)
    if (drawn.contains(move->card)) data.transitions.push_back(*move);
  for (const auto& span : run.compute)
    if (drawn.contains(span->card)) data.compute.push_back(*span);
  return data;
}

double seconds_of(const RunStage& stage, const RunView& run) {
  double seconds = 0;
  for (std::string_view phase : stage.phases)
    if (run.last != nullptr)
      seconds += run.last->number(fmt::format("time/{}_s", phase)).value_or(0);
  return seconds;
}

std::vector<std::string> lines_of(const RunStage& stage, const RunView& run) {
  std::vector<std::string> lines;
  const auto cards =
      std::ranges::count_if(run.cards, [&](const CardView& card) { return has_role(stage, card); });
  const auto lost = std::ranges::count_if(
      run.cards, [&](const CardView& card) { return has_role(stage, card) && card.is_lost; });
  if (cards > 0)
    lines.push_back(lost > 0 ? fmt::format("{} cards, {} lost", cards, lost)
                             : fmt::format("{} card{}", cards, cards == 1 ? "" : "s"));
  if (const double seconds = seconds_of(stage, run); seconds > 0)
    lines.push_back(format_duration(seconds) + " of the last step");
  for (const auto& [metric, label] : stage.numbers)
    if (const auto value = run.last ? run.last->number(metric) : std::nullopt)
      lines.push_back(fmt::format(
          "{} {}", *value >= 1000 ? format_count(*value) : format_number(*value), label));
  return lines;
}

constexpr double k_box = 156, k_gap = 70, k_tall = 116;

std::string draw_box(const RunStage& stage, const RunView& run, double x, double y) {
  const bool is_lost = std::ranges::any_of(
      run.cards, [&](const CardView& card) { return card.is_lost && has_role(stage, card); });
  std::string out = fmt::format(
      R"(<rect class="box{}" x="{:.0f}" y="{:.0f}" width="{:.0f}" height="{:.0f}" rx="8"/>)",
      is_lost                 ? " lost"
      : works_now(stage, run) ? " busy"
                              : "",
      x, y, k_box, k_tall);
  out += fmt::format(R"(<text class="name" x="{:.0f}" y="{:.0f}">{}</text>)", x + 12, y + 22,
                     stage.title);
  double line = y + 42;
  for (const std::string& text : lines_of(stage, run)) {
    out += fmt::format(R"(<text x="{:.0f}" y="{:.0f}">{}</text>)", x + 12, line, escape_html(text));
    line += 17;
  }
  return out;
}

std::string arrow(double x1, double y1, double x2, double y2) {
  const bool is_down = x1 == x2;
  std::string out = fmt::format(R"(<path d="M{:.0f} {:.0f} L{:.0f} {:.0f}"/>)", x1, y1, x2, y2);
  out += is_down ? fmt::format(R"(<path class="tip" d="M{:.0f} {:.0f} l-5 -8 h10 z"/>)", x2, y2)
                 : fmt::format(R"(<path class="tip" d="M{:.0f} {:.0f} l-8 -5 v10 z"/>)", x2, y2);
  return out;
}

/// The role that a link begins at: "actor_infer" of "actor_infer@1->rewards".
std::string_view source_of(std::string_view link) {
  return link.substr(0, link.find_first_of("@-"));
}

bool is_of(const RunStage& stage, const LinkLine& link) {
  return link.is_producer && std::ranges::any_of(stage.roles, [&](std::string_view role) {
           return source_of(link.name).find(role) != std::string_view::npos;
         });
}

/// Stages that this run has: of cards, of links, or of time in the last step.
std::vector<const RunStage*> stages_of(const RunView& run, const FlowView* flow) {
  std::vector<const RunStage*> out;
  for (const RunStage& stage : run_stages()) {
    const bool has_link = flow != nullptr && std::ranges::any_of(flow->links, [&](auto& link) {
                            return is_of(stage, link);
                          });
    if (has_link || !lines_of(stage, run).empty() || works_now(stage, run)) out.push_back(&stage);
  }
  return out;
}

/// What is on its way from a stage: bytes that wait, and the rate.
struct OnTheWay {
  bool is_known = false;
  uint64_t queued_bytes = 0;
  double bytes_per_s = k_not_measured;
};

OnTheWay on_the_way(const RunStage& from, const FlowView* flow) {
  OnTheWay sum;
  if (flow == nullptr) return sum;
  for (const LinkLine& link : flow->links) {
    if (!is_of(from, link)) continue;
    sum.is_known = true;
    sum.queued_bytes += link.queued_bytes;
    if (std::isfinite(link.bytes_per_s))
      sum.bytes_per_s = link.bytes_per_s + (std::isfinite(sum.bytes_per_s) ? sum.bytes_per_s : 0.0);
  }
  return sum;
}

std::string rate_text(double bytes_per_s) {
  return std::isfinite(bytes_per_s) ? format_bytes(static_cast<uint64_t>(bytes_per_s)) + "/s" : "-";
}

std::string way_text(const OnTheWay& way, double x, double y) {
  if (!way.is_known) return "";
  return fmt::format(R"(<text x="{0:.0f}" y="{1:.0f}">{2}</text>)"
                     R"(<text x="{0:.0f}" y="{3:.0f}">{4}</text>)",
                     x, y - 8, format_bytes(way.queued_bytes), y + 16,
                     std::isfinite(way.bytes_per_s) ? rate_text(way.bytes_per_s) : "");
}

std::string draw_flow(const RunView& run, const FlowView* flow, bool is_narrow) {
  const std::vector<const RunStage*> shown = stages_of(run, flow);
  const auto count = static_cast<double>(shown.size());
  const double width = is_narrow ? k_narrow : std::max(k_wide, count * (k_box + k_gap) - k_gap);
  const double height = is_narrow ? count * (k_tall + k_gap) - k_gap + 4 : k_tall + 48;
  std::string out = open_svg(width, height, "dataflow", "flow");
  for (size_t i = 0; i < shown.size(); ++i) {
    const double at = static_cast<double>(i);
    const double x = is_narrow ? 8 : 2 + at * (k_box + k_gap);
    const double y = is_narrow ? 2 + at * (k_tall + k_gap) : 8;
    out += draw_box(*shown[i], run, x, y);
    if (i + 1 == shown.size()) continue;
    const OnTheWay way = on_the_way(*shown[i], flow);
    out += is_narrow ? arrow(x + 60, y + k_tall, x + 60, y + k_tall + k_gap) +
                           way_text(way, x + 72, y + k_tall + k_gap / 2)
                     : arrow(x + k_box, y + k_tall / 2, x + k_box + k_gap, y + k_tall / 2) +
                           way_text(way, x + k_box + 6, y + k_tall / 2);
  }
  if (shown.size() > 1 && !is_narrow) {
    const double last = 2 + (count - 1) * (k_box + k_gap) + k_box / 2;
    const double low = k_tall + 40;
    out += fmt::format(R"(<path d="M{0:.0f} {1:.0f} V{2:.0f} H{3:.0f} V{4:.0f}"/>)", last,
                       k_tall + 8, low, k_box / 2, k_tall + 12);
    out +=
        fmt::format(R"(<path class="tip" d="M{:.0f} {:.0f} l-5 8 h10 z"/>)", k_box / 2, k_tall + 8);
    out +=
        fmt::format(R"(<text x="{:.0f}" y="{:.0f}">new weights</text>)", k_box / 2 + 10, low - 6);
  }
  return out + "</svg>";
}

std::string working_text(const RunView& run, double now) {
  if (is_over(run)) return fmt::format("The run is over: {}.", to_string(run.state));
  std::string phase = run.phase.empty() ? run.stage : run.phase;
  if (run.stage != "step" && phase != run.stage) phase = run.stage + ", " + phase;
  const auto busy = std::ranges::find_if(
      run_stages(), [&](const RunStage& stage) { return works_now(stage, run); });
  return fmt::format("Step {}, {} after the start: {}{}.", run.step + 1,
                     format_duration(now - run.started), phase.empty() ? "begins" : phase,
                     busy == run_stages().end() ? "" : fmt::format(" ({})", busy->title));
}

std::string waits_part(const FlowView& flow) {
  std::string out;
  if (!flow.sentence.empty())
    out += fmt::format("<p{}>{}</p>\n", flow.is_stalled ? " class=\"bad\"" : "",
                       escape_html(flow.sentence));
  if (!flow.note.empty()) out += fmt::format("<p class=\"note\">{}</p>\n", escape_html(flow.note));
  if (flow.waits.empty()) return out;
  out +=
      "<div class=\"scroll\"><table><thead><tr><th>who</th><th>waits for</th>"
      "<th class=\"num\">since</th><th>ends with</th><th>process</th></tr></thead><tbody>\n";
  for (const WaitLine& wait : flow.waits)
    out += fmt::format(
        "<tr><td>{}</td><td class=\"words\">{}{}</td><td class=\"num\">{}</td>"
        "<td class=\"words\">{}</td><td>{}</td></tr>\n",
        escape_html(wait.who), escape_html(wait.what),
        wait.where.empty() ? "" : fmt::format(", in {}", escape_html(wait.where)),
        format_duration(wait.seconds), escape_html(wait.ends_by), escape_html(wait.process));
  return out + "</tbody></table></div>\n";
}

std::string links_table(const FlowView& flow) {
  if (flow.links.empty()) return "";
  std::string out =
      "<div "
      "class=\"scroll\"><table><thead><tr><th>link</th><th>end</th><th>process</th><th>queue</th>"
      "<th class=\"num\">waiting</th><th class=\"num\">of</th><th class=\"num\">credit</th>"
      "<th class=\"num\">messages</th><th class=\"num\">bytes</th><th class=\"num\">rate</th>"
      "<th class=\"num\">resent</th></tr></thead><tbody>\n";
  for (const LinkLine& link : flow.links) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td>", escape_html(link.name),
                       link.is_producer ? "producer" : "consumer", escape_html(link.process));
    out += link.is_producer
               ? fmt::format(
                     "<td><meter min=\"0\" max=\"{}\" value=\"{}\"></meter></td>"
                     "<td class=\"num\">{}</td><td class=\"num\">{}</td>"
                     "<td class=\"num\">-</td>",
                     std::max<uint64_t>(1, link.queue_bytes_max), link.queued_bytes,
                     format_bytes(link.queued_bytes), format_bytes(link.queue_bytes_max))
               : fmt::format(
                     "<td>-</td><td class=\"num\">-</td><td class=\"num\">-</td>"
                     "<td class=\"num\">{}</td>",
                     format_bytes(link.credit_bytes));
    out += fmt::format(
        "<td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td>"
        "<td class=\"num\">{}</td></tr>\n",
        link.messages, format_bytes(link.bytes), rate_text(link.bytes_per_s), link.resent);
  }
  return out + "</tbody></table></div>\n";
}

std::string phases_table(const RunView& run) {
  if (run.phase_seconds.empty()) return "";
  double sum = 0;
  for (const auto& [phase, seconds] : run.phase_seconds) sum += seconds;
  std::string out =
      "<div class=\"scroll\"><table><thead><tr><th>phase</th><th class=\"num\">seconds of all "
      "steps</th><th class=\"num\">share</th></tr></thead><tbody>\n";
  for (const auto& [phase, seconds] : run.phase_seconds)
    out += fmt::format("<tr><td>{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td></tr>\n",
                       escape_html(phase), format_number(seconds, 4),
                       format_percent(sum > 0 ? seconds / sum : 0));
  return out + "</tbody></table></div>\n";
}

}  // namespace

std::string timeline_page(const RunView& run, std::string_view nonce) {
  const ReportData data = timeline_data(run);
  ReportColors colors;
  std::string out = "<header><h1>Timeline</h1></header>\n";
  std::string state = refresh(run);
  if (data.compute.empty() && data.transitions.empty())
    state += "<p class=\"note\">Nothing has been computed yet.</p>";
  else if (data.compute.empty())
    state +=
        "<p class=\"note\">What moved on the cards; report.html and trace.json of the run have "
        "what "
        "they computed.</p>";
  if (run.cards.size() > k_drawn_cards)
    state += fmt::format("<p class=\"note\">The first {} of {} cards are drawn.</p>", k_drawn_cards,
                         run.cards.size());
  out += "<section id=\"state\">" + state + "</section>\n";
  out += part("timeline", "Phases", timeline_part(data, colors));
  out += part("residency", "Bytes on the cards", residency_part(data, colors));
  return page_shell({"timeline", nonce, "timeline"}, out);
}

std::string flow_page(const DashboardData& data, const FlowView* flow, double now,
                      std::string_view nonce) {
  const RunView& run = *data.run;
  std::string out = "<header><h1>Dataflow</h1></header>\n";
  out += fmt::format("<section id=\"state\"><p>{}</p>{}</section>\n",
                     escape_html(working_text(run, now)), refresh(run));
  out +=
      part("flow", "Roles",
           stages_of(run, flow).empty()
               ? "<p class=\"note\">Numbers come with the first finished step.</p>"
               : "<figure class=\"card\">" +
                     dual(draw_flow(run, flow, false), draw_flow(run, flow, true)) + "</figure>");
  out += part("waits", "Who waits for whom", flow == nullptr ? "" : waits_part(*flow));
  out += part("links", "Links", flow == nullptr ? "" : links_table(*flow));
  out += part("phases", "Time", phases_table(run));
  return page_shell({"dataflow", nonce, "flow"}, out);
}

}  // namespace cohort::observe
