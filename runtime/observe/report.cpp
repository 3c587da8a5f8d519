#include "runtime/observe/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <system_error>

#include "runtime/observe/html.hpp"
#include "runtime/observe/output_file.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/report_parts.hpp"

namespace cohort::observe {

size_t ColorMap::index_of(const std::string& name) {
  auto found = std::ranges::find(names_, name);
  if (found == names_.end()) found = names_.insert(names_.end(), name);
  return static_cast<size_t>(found - names_.begin());
}

std::string dual(std::string_view wide, std::string_view narrow) {
  return fmt::format(R"(<div class="wide">{}</div><div class="narrow">{}</div>)", wide, narrow);
}

std::string section(std::string_view id, std::string_view title, std::string_view body) {
  if (body.empty()) return "";
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}\n</section>\n", id, escape_html(title),
                     body);
}

std::string small_headline(std::string_view name, std::string_view value) {
  return fmt::format("<div class=\"headline small\"><h3>{}</h3><p class=\"big\">{}</p></div>\n",
                     escape_html(name), escape_html(value));
}

std::string legend_key(size_t color, std::string_view text) {
  return fmt::format(R"(<span class="key s{}"><i></i>{}</span>)", color, escape_html(text));
}

namespace {

std::string_view chip_color(std::string_view kind) {
  if (kind == "error" || kind == "death" || kind == "lost" || kind == "away") return "bad";
  for (std::string_view warning : {"warning", "requeue", "nonfinite", "leak", "notice"})
    if (kind == warning) return "warn";
  return "";
}

}  // namespace

std::string events_part(const ReportData& data) {
  if (data.events.empty())
    return "<p class=\"note\">No warnings, retries or failures were recorded.</p>";
  std::string out =
      "<div class=\"scroll\"><table><thead><tr><th class=\"num\">time</th><th class=\"num\">step"
      "</th><th>kind</th><th>what happened</th></tr></thead><tbody>\n";
  for (const EventView& event : data.events)
    out += fmt::format(
        "<tr><td class=\"num\">{}</td><td class=\"num\">{}</td>"
        "<td><span class=\"chip {}\">{}</span></td><td>{}</td></tr>\n",
        format_duration(event.time_s), event.step, chip_color(event.kind), escape_html(event.kind),
        escape_html(event.text));
  return out + "</tbody></table></div>";
}

namespace {

std::string header_part(const ReportData& data) {
  std::string out = fmt::format("<header>\n<h1>{}</h1>\n", escape_html(data.title));
  if (!data.status.empty())
    out += fmt::format("<p class=\"status {}\">{}</p>\n",
                       data.status.starts_with("failed") ? "bad" : "", escape_html(data.status));
  if (!data.summary.empty())
    out += fmt::format("<p class=\"summary\">{}</p>\n", escape_html(data.summary));
  if (!data.facts.empty()) {
    out += "<dl class=\"facts\">";
    for (const Fact& fact : data.facts)
      out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", escape_html(fact.name),
                         escape_html(fact.value));
    out += "</dl>\n";
  }
  return out + "</header>\n";
}

std::string config_part(const ReportData& data) {
  if (data.config_text.empty()) return "";
  return fmt::format(
      "<details><summary>resolved configuration ({} lines)</summary><pre>{}</pre></details>",
      std::ranges::count(data.config_text, '\n'), escape_html(data.config_text));
}

struct Part {
  std::string_view id;
  std::string_view title;
  std::string body;
};

}  // namespace

std::string render_report(const ReportData& data) {
  ReportColors colors;
  std::string phases = timeline_part(data, colors);
  phases += step_times_part(data, colors);
  std::vector<Part> parts = {{"learning", "Learning", learning_part(data)},
                             {"training", "Training signals", charts_part(data)},
                             {"phases", "Phases", phases},
                             {"memory", "Memory on the cards", residency_part(data, colors)},
                             {"trajectories", "Trajectories", trajectories_part(data)},
                             {"events", "Warnings and events", events_part(data)},
                             {"config", "Configuration", config_part(data)}};
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      // the browser itself refuses to fetch anything: OBS-5
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n";
  out += fmt::format("<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n",
                     escape_html(data.title + " · run report"), k_report_style);
  out += header_part(data);
  out += headline_part(data);
  out += "<nav>";
  for (const Part& part : parts) {
    if (!part.body.empty()) out += fmt::format("<a href=\"#{}\">{}</a>", part.id, part.title);
  }
  out += "</nav>\n";
  for (const Part& part : parts) out += section(part.id, part.title, part.body);
  out += "</main>\n<div id=\"tip\" hidden></div>\n";
  out += fmt::format("<script>{}</script>\n</body>\n</html>\n", k_report_script);
  return out;
}

Expected<void> write_report(const std::filesystem::path& path, const ReportData& data) {
  std::filesystem::path temporary = path;
  temporary += fmt::format(".{}.tmp", ::getpid());
  auto write_all = [&]() -> Expected<void> {
    COHORT_ASSIGN(File file, File::open(temporary, File::Mode::replace));
    COHORT_TRY(file.write(render_report(data)));
    return file.close();
  };
  std::error_code failed;
  if (auto written = write_all(); !written) {
    std::filesystem::remove(temporary, failed);
    return written.error();
  }
  std::filesystem::rename(temporary, path, failed);
  if (failed)
    return Error{Errc::io, fmt::format("{}: cannot rename: {}", path.string(), failed.message())};
  return {};
}

}  // namespace cohort::observe
