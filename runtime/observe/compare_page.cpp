#include "runtime/observe/compare_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/observe/html.hpp"
#include "runtime/observe/http.hpp"
#include "runtime/observe/page_shell.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/report_parts.hpp"

namespace cohort::observe {
namespace {

constexpr size_t k_keys_max = 300;

using Runs = std::vector<std::shared_ptr<const ComparedRun>>;

/// Those that have been read.
Runs read_ones(const Comparison& compared) {
  Runs runs;
  for (const auto& run : compared.runs)
    if (run != nullptr && run->error.empty()) runs.push_back(run);
  return runs;
}

std::string choices_form(const Comparison& compared) {
  std::string out = "<form class=\"where\" action=\"compare\" method=\"get\">";
  for (const std::string& name : compared.choices) {
    const bool is_chosen = std::ranges::any_of(
        compared.runs, [&](const auto& run) { return run != nullptr && run->name == name; });
    out += fmt::format("<label><input type=\"checkbox\" name=\"run\" value=\"{0}\"{1}> {0}</label>",
                       escape_html(name), is_chosen ? " checked" : "");
  }
  return out + "<button>Compare</button></form>\n";
}

/// The standard charts of all runs, those of one title in one chart.
std::vector<ChartSpec> charts_of(const Runs& runs) {
  std::vector<ChartSpec> charts;
  auto add = [&](ChartSpec chart, const std::string& run) {
    const bool has_one = chart.series.size() == 1;
    for (Series& series : chart.series)
      series.name = has_one ? run : fmt::format("{}, {}", run, series.name);
    const auto same = std::ranges::find(charts, chart.title, &ChartSpec::title);
    if (same == charts.end())
      charts.push_back(std::move(chart));
    else
      std::ranges::move(chart.series, std::back_inserter(same->series));
  };
  for (const auto& run : runs) {
    const auto success = series_of(run->rows, "val/success", "");
    if (success.points.empty()) continue;
    add({"held-out success", "", AxisFormat::percent, "", {success}, {}}, run->name);
  }
  for (const auto& run : runs)
    for (ChartSpec& chart : standard_charts(run->rows)) add(std::move(chart), run->name);
  return charts;
}

std::string last_number(const ComparedRun& run, std::string_view metric) {
  for (auto row = run.rows.rbegin(); row != run.rows.rend(); ++row)
    if (const auto value = row->number(metric)) return format_number(*value);
  return "-";
}

std::string ends_table(const Runs& runs) {
  std::string out =
      "<div class=\"scroll\"><table><thead><tr><th>run</th><th class=\"num\">last step</th>"
      "<th class=\"num\">reward</th><th class=\"num\">held-out success</th><th class=\"num\">loss"
      "</th><th class=\"num\">tokens/s</th></tr></thead><tbody>\n";
  for (const auto& run : runs) {
    out += fmt::format("<tr><td>{}</td><td class=\"num\">{}</td>", escape_html(run->name),
                       run->rows.empty() ? "-" : fmt::to_string(run->rows.back().step()));
    for (const char* metric : {"reward/mean", "val/success", "loss", "tokens_per_s"})
      out += fmt::format("<td class=\"num\">{}</td>", last_number(*run, metric));
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>";
}

/// One sentence on parameter hashes: the last step up to which they agree.
std::string hashes_text(const Runs& runs) {
  if (runs.size() != 2) return "";
  std::optional<uint64_t> equal;
  for (const MetricRow& row : runs[0]->rows) {
    const auto other = std::ranges::find(runs[1]->rows, row.step(), &MetricRow::step);
    if (other == runs[1]->rows.end()) continue;
    const auto a = row.text("param_hash"), b = other->text("param_hash");
    if (!a || !b) continue;
    if (*a != *b)
      return fmt::format(
          "<p class=\"note\">The parameters differ at step {}{}; "
          "<code>traj diff</code> names the first tensor or token.</p>\n",
          row.step(), equal ? fmt::format(" and are equal at step {}", *equal) : "");
    equal = row.step();
  }
  return equal ? fmt::format(
                     "<p class=\"note\">The parameters are equal at every step that both "
                     "have, to step {}.</p>\n",
                     *equal)
               : "";
}

std::string config_table(const Runs& runs) {
  std::set<std::string> keys;
  for (const auto& run : runs)
    for (const auto& [key, value] : run->config) keys.insert(key);
  auto value_of = [](const ComparedRun& run, const std::string& key) {
    const auto found = run.config.find(key);
    return found == run.config.end() ? std::string("-") : found->second;
  };
  std::string rows;
  size_t count = 0;
  for (const std::string& key : keys) {
    const bool is_equal = std::ranges::all_of(
        runs, [&](const auto& run) { return value_of(*run, key) == value_of(*runs[0], key); });
    if (is_equal || ++count > k_keys_max) continue;
    rows += fmt::format("<tr><td>{}</td>", escape_html(key));
    for (const auto& run : runs)
      rows += fmt::format("<td class=\"words\">{}</td>", escape_html(value_of(*run, key)));
    rows += "</tr>\n";
  }
  if (count == 0) return "<p class=\"note\">The configs are equal.</p>";
  std::string out = "<div class=\"scroll\"><table class=\"diff\"><thead><tr><th>key</th>";
  for (const auto& run : runs) out += fmt::format("<th>{}</th>", escape_html(run->name));
  out += "</tr></thead><tbody>\n" + rows + "</tbody></table></div>";
  if (count > k_keys_max)
    out += fmt::format("<p class=\"note\">{} keys more differ.</p>", count - k_keys_max);
  return out;
}

std::string state_part(const Comparison& compared, bool is_live) {
  std::string out;
  bool is_whole = true;
  for (const auto& run : compared.runs) {
    if (run == nullptr)
      is_whole = false;
    else if (!run->error.empty())
      out += fmt::format("<p class=\"bad\">{}: {}</p>", escape_html(run->name),
                         escape_html(run->error));
  }
  if (!is_whole) out += "<p class=\"note\">The runs are being read.</p>";
  if (!is_whole || is_live) out += refresh_mark(is_whole ? k_live_ms : k_soon_ms);
  return "<section id=\"state\">" + out + "</section>\n";
}

}  // namespace

std::string compare_page(const Comparison& compared, bool is_live, std::string_view nonce) {
  const Runs runs = read_ones(compared);
  std::string out = "<header><h1>Runs compared</h1></header>\n";
  out += compared.choices.size() > 1
             ? choices_form(compared)
             : "<p class=\"note\">There is no other run beside this one in its folder; "
               "<code>actor-node serve RUN OTHER</code> compares any.</p>\n";
  out += state_part(compared, is_live);
  ReportData data;
  data.charts = charts_of(runs);
  out += part("ends", "Where they are", runs.empty() ? "" : ends_table(runs) + hashes_text(runs));
  out += part("curves", "Curves", charts_part(data));
  out += part("diff", "Config", runs.size() < 2 ? "" : config_table(runs));
  return page_shell({"runs compared", nonce, "compare"}, out);
}

std::string logs_page(const LogView& log, bool is_live, std::string_view nonce) {
  std::string out = "<header><h1>Logs</h1></header>\n<nav>";
  for (const std::string& file : log.files)
    out += fmt::format("<a href=\"logs?file={}\"{}>{}</a>", escape_html(query_encoded(file)),
                       file == log.file ? " aria-current=\"page\"" : "", escape_html(file));
  out += "</nav>\n";
  std::string body;
  if (!log.error.empty()) body += fmt::format("<p class=\"bad\">{}</p>", escape_html(log.error));
  if (log.left_out_bytes > 0)
    body += fmt::format("<p class=\"note\">The last part; {} come before it.</p>",
                        format_bytes(log.left_out_bytes));
  if (log.file.empty() && log.error.empty())
    body += "<p class=\"note\">The run has written no log.</p>";
  else if (log.error.empty())
    body += fmt::format("<pre class=\"log\" tabindex=\"0\">{}</pre>", escape_html(log.text));
  if (is_live) body += refresh_mark(k_live_ms);
  return page_shell({"logs", nonce, "logs"}, out + part("log", "", body));
}

}  // namespace cohort::observe
