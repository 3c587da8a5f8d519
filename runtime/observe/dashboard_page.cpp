#include "runtime/observe/dashboard_page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/observe/html.hpp"
#include "runtime/observe/page_shell.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/report_parts.hpp"

namespace cohort::observe {
namespace {

std::string_view color_of(RunState state) {
  return state == RunState::failed ? "bad" : state == RunState::stopping ? "warn" : "";
}

std::string doing(const RunView& run) {
  if (is_over(run) || run.stage.empty()) return std::string(to_string(run.state));
  std::string text = run.phase.empty() || run.stage == run.phase ? run.stage : run.phase;
  if (run.stage != "step" && text != run.stage) text = run.stage + ", " + text;
  if (run.stage_done >= 0) text += " " + format_percent(run.stage_done);
  return text;
}

std::string run_part(const RunView& run, double now) {
  std::string out = fmt::format(
      "<header><h1>{}</h1><span class=\"state {}\" data-title=\"{} {}/{} {}\"{}>{}</span></header>",
      escape_html(run.name), color_of(run.state), to_string(run.state), run.step, run.total_steps,
      escape_html(run.name), is_over(run) ? " data-over=\"1\"" : "", to_string(run.state));
  if (!run.error.empty()) out += fmt::format("<p class=\"bad\">{}</p>", escape_html(run.error));
  if (!run.folder.empty()) out += fmt::format("<p class=\"where\">{}</p>", escape_html(run.folder));
  if (run.total_steps > 0)
    out += fmt::format("<progress value=\"{}\" max=\"{}\">step {}</progress>\n",
                       std::min(run.step, run.total_steps), run.total_steps, run.step);
  out += "<div class=\"numbers\">\n";
  out +=
      small_headline("step", run.total_steps > 0 ? fmt::format("{}/{}", run.step, run.total_steps)
                                                 : fmt::format("{}", run.step));
  out += small_headline("now", doing(run));
  out += small_headline(
      "time left", is_over(run) || !run.eta ? "-" : format_duration(std::max(0.0, *run.eta - now)));
  out += small_headline(run.ended > 0 ? "ran for" : "running for",
                        format_duration((run.ended > 0 ? run.ended : now) - run.started));
  out += small_headline("trajectories", format_count(static_cast<double>(run.trajectories)));
  out += small_headline("tokens", format_count(run.tokens));
  if (run.last != nullptr) {
    if (auto reward = run.last->number("reward/mean"))
      out += small_headline("reward", format_number(*reward));
    if (auto rate = run.last->number("tokens_per_s"))
      out += small_headline("tokens/s", format_count(*rate));
  }
  out +=
      "</div>\n<nav><a href=\"#learning\">Learning</a><a href=\"#training\">Training signals</a>";
  out += "<a href=\"#phases\">Time</a><a href=\"#cards\">Cards</a><a href=\"#nodes\">Nodes</a>";
  uint64_t events = 0;
  for (const auto& [kind, count] : run.event_counts) events += count;
  return out + fmt::format("<a href=\"#events\">Events ({})</a></nav>\n", events);
}

std::string cluster_title(const ClusterView& cluster, double now) {
  return fmt::format(
      "<header><h1>cohort cluster</h1><span class=\"state\" data-title=\"cohort "
      "cluster: {} nodes\">{} nodes, {} runs</span></header>\n<p class=\"where\">"
      "head {}, up {}</p>\n",
      cluster.nodes.size(), cluster.nodes.size(), cluster.runs.size(), escape_html(cluster.version),
      format_duration(cluster.up_s + std::max(0.0, now - cluster.at)));
}

std::string processes_of(const NodeView& node) {
  std::string out;
  for (const std::string& process : node.processes)
    out += (out.empty() ? "" : "<br>") + escape_html(process);
  return out.empty() ? "-" : out;
}

std::string nodes_part(const ClusterView& cluster, double now) {
  constexpr double k_stale_s = 5;
  const double age = cluster.is_this_one ? 0 : std::max(0.0, now - cluster.at);
  std::string out;
  if (age > k_stale_s)
    out = fmt::format(
        "<p class=\"bad\">The cluster's head has not answered for {}: this is how it "
        "was. The run goes on without it.</p>\n",
        format_duration(age));
  if (cluster.nodes.empty()) return out + "<p class=\"note\">No node has joined yet.</p>";
  out +=
      "<div class=\"scroll\"><table><thead><tr><th class=\"num\">node</th><th>host</th><th>"
      "address</th><th class=\"num\">cards</th><th>version</th><th class=\"num\">heard</th>"
      "<th class=\"num\">losses</th><th>processes</th></tr></thead><tbody>\n";
  for (const NodeView& node : cluster.nodes)
    out += fmt::format(
        "<tr><td class=\"num\">{}</td><td>{}</td><td>{}</td><td class=\"num\">{}</td><td>{}</td>"
        "<td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"words\">{}</td></tr>\n",
        node.node, escape_html(node.host), node.address.empty() ? "-" : escape_html(node.address),
        node.cards == 0 ? "any" : std::to_string(node.cards), escape_html(node.version),
        node.is_away          ? "<span class=\"chip bad\">AWAY</span>"
        : node.is_lost        ? "<span class=\"chip bad\">LOST</span>"
        : node.is_leaving     ? "<span class=\"chip\">LEAVING</span>"
        : cluster.is_this_one ? "here"
                              : format_duration(node.heard_s + age),
        node.losses ? std::to_string(*node.losses) : "-", processes_of(node));
  return out + "</tbody></table></div>";
}

std::string cards_part(const RunView& run) {
  if (run.cards.empty()) return "";
  std::string out =
      "<div class=\"scroll\"><table><thead><tr><th class=\"num\">card</th><th>role</th>"
      "<th>memory</th><th class=\"num\">now</th><th class=\"num\">peak</th>"
      "<th class=\"num\">budget</th><th class=\"num\">losses</th><th class=\"num\">restarts</th>"
      "</tr></thead><tbody>\n";
  for (const CardView& card : run.cards)
    out += fmt::format(
        "<tr><td class=\"num\">{}</td><td>{}{}</td><td><meter min=\"0\" max=\"{}\" value=\"{}\">"
        "</meter></td><td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td>"
        "<td class=\"num\">{}</td><td class=\"num\">{}</td></tr>\n",
        card.card, escape_html(card.role),
        card.is_lost ? " <span class=\"chip bad\">LOST</span>" : "",
        std::max<uint64_t>(1, card.budget_bytes), std::min(card.used_bytes, card.budget_bytes),
        format_bytes(card.used_bytes), format_bytes(card.peak_bytes),
        format_bytes(card.budget_bytes), card.losses, card.restarts);
  return out + "</tbody></table></div>";
}

/// The report's parts for a run that goes on.
ReportData report_of(const RunView& run) {
  ReportData report;
  report.references = run.references;
  report.evaluations = run.evaluations.values();
  std::vector<MetricRow> rows;
  for (const auto& row : run.rows.values()) rows.push_back(*row);
  report.train_reward = series_of(rows, "reward/mean", "train reward");
  std::span<const MetricRow> steps = rows;  // step 0 is the warm start: as in report.html
  if (!steps.empty() && steps.front().step() == 0) steps = steps.subspan(1);
  report.charts = standard_charts(steps);
  report.step_times = step_times_of(steps);
  return report;
}

std::string charts(const RunView& run) {
  const ReportData report = report_of(run);
  ReportColors colors;
  std::string learning = headline_part(report) + learning_part(report);
  if (run.rows.pushed() == 0)
    learning = "<p class=\"note\">Curves begin with the first finished step.</p>";
  std::string training = charts_part(report);
  if (run.rows.stride() > 1 && !training.empty())
    training +=
        fmt::format("<p class=\"note\">Every {}th step is drawn; metrics.jsonl has all.</p>",
                    run.rows.stride());
  return part("learning", "Learning", learning) + part("training", "Training signals", training) +
         part("phases", "Time", step_times_part(report, colors)) +
         fmt::format("<section id=\"drawn\" hidden><i data-rows=\"{}\"></i></section>\n",
                     run.rows.pushed());
}

/// Not among the parts that are fetched again: nobody's typing is overwritten.
constexpr std::string_view k_stop_form =
    "<section id=\"stop\"><h2>Stop</h2><form class=\"where\" data-stop=\"1\"><input "
    "type=\"password\" name=\"token\" autocomplete=\"off\" aria-label=\"stop token\" "
    "placeholder=\"stop token, from the run's console\"><button>Stop after this step</button>"
    "<output></output></form></section>\n";

std::string events(const RunView& run) {
  ReportData report;
  report.events.assign(run.events.rbegin(), run.events.rend());
  return events_part(report);
}

}  // namespace

std::string dashboard_parts(const DashboardData& data, const PageOptions& options) {
  std::string out;
  if (data.run)
    out += fmt::format("<section id=\"run\">{}</section>\n", run_part(*data.run, options.now));
  else if (data.cluster)
    out += fmt::format("<section id=\"run\">{}</section>\n",
                       cluster_title(*data.cluster, options.now));
  else
    out += part("run", "", "");
  if (data.run && options.known_rows != data.run->rows.pushed()) out += charts(*data.run);
  if (data.run) out += part("cards", "Cards", cards_part(*data.run));
  out += part("nodes", "Nodes and processes",
              data.cluster ? nodes_part(*data.cluster, options.now) : "");
  if (data.run) out += part("events", "Events", events(*data.run));
  return out;
}

std::string dashboard_page(const DashboardData& data, const PageOptions& options,
                           std::string_view nonce) {
  std::string body = dashboard_parts(data, options);
  if (options.can_stop && data.run && !is_over(*data.run)) body += k_stop_form;
  return page_shell({data.run ? data.run->name : "cohort", nonce, "./", data.run != nullptr}, body);
}

}  // namespace cohort::observe
