#include "runtime/observe/browse_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/observe/histogram_part.hpp"
#include "runtime/observe/html.hpp"
#include "runtime/observe/http.hpp"
#include "runtime/observe/page_shell.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/report_parts.hpp"

namespace cohort::observe {
namespace {

std::string link(std::string_view href, std::string_view text, std::string_view rel = "") {
  return fmt::format("<a href=\"{}\"{}>{}</a>", escape_html(href),
                     rel.empty() ? "" : fmt::format(" rel=\"{}\"", rel), escape_html(text));
}

std::string filter_form(const BrowseAddress& at) {
  return fmt::format(
      "<form class=\"where\" action=\"step\" method=\"get\"><input type=\"hidden\" name=\"step\" "
      "value=\"{}\"><input name=\"where\" value=\"{}\" aria-label=\"filter\" autocomplete=\"off\" "
      "placeholder=\"score &gt; 0.5 and stop_reason == &#39;length&#39; and text ~ "
      "&#39;answer&#39;\"><button>Filter</button></form>\n",
      at.step, escape_html(at.where));
}

/// Links to the pages of `count` lines around `at.page`.
std::string pager(std::string_view path, BrowseAddress at, size_t count, size_t lines) {
  const size_t pages = (count + lines - 1) / lines;
  if (pages < 2) return "";
  std::string out = "<nav>";
  const size_t page = std::min(at.page, pages - 1);
  if (at.page = page - 1; page > 0) out += link(browse_link(path, at), "previous", "prev");
  out += fmt::format("<span>page {} of {}</span>", page + 1, pages);
  if (at.page = page + 1; page + 1 < pages) out += link(browse_link(path, at), "next", "next");
  return out + "</nav>\n";
}

std::string progress_part(const StepView& view) {
  if (!view.error.empty()) return fmt::format("<p class=\"bad\">{}</p>", escape_html(view.error));
  std::string out;
  if (!view.is_whole)
    out += fmt::format(
        "<progress value=\"{}\" max=\"{}\"></progress><p class=\"note\">{} of {} "
        "records have been read.</p>",
        view.read, std::max<uint64_t>(view.known, 1), view.read, view.known);
  if (view.damaged > 0)
    out += fmt::format("<p class=\"bad\">{} records are damaged and left out.</p>", view.damaged);
  if (view.left_out > 0)
    out += fmt::format(
        "<p class=\"note\">{} trajectories more than are listed: a query chooses "
        "fewer.</p>",
        view.left_out);
  return out;
}

struct GroupSum {
  std::string_view kind;
  uint32_t group = 0;
  std::vector<const TrajectoryLine*> lines;
};

std::vector<GroupSum> groups_of(const StepView& view) {
  std::vector<GroupSum> groups;
  for (const TrajectoryLine& line : view.lines) {
    if (groups.empty() || groups.back().kind != line.kind || groups.back().group != line.group)
      groups.push_back({line.kind, line.group, {}});
    groups.back().lines.push_back(&line);
  }
  return groups;
}

/// "6 trains, 2 masked".
std::string counted(const std::vector<const TrajectoryLine*>& lines,
                    std::string TrajectoryLine::*field) {
  std::vector<std::pair<std::string, size_t>> counts;
  for (const TrajectoryLine* line : lines) {
    auto found = std::ranges::find(counts, line->*field, &std::pair<std::string, size_t>::first);
    if (found == counts.end())
      counts.emplace_back(line->*field, 1);
    else
      ++found->second;
  }
  std::ranges::stable_sort(counts, std::greater(), &std::pair<std::string, size_t>::second);
  std::string out;
  for (const auto& [name, count] : counts)
    if (!name.empty()) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, name);
  return out.empty() ? "-" : out;
}

struct Moments {
  double mean = 0, std = 0, low = 0, high = 0;
};

Moments moments_of(const std::vector<double>& values) {
  Moments out;
  if (values.empty()) return out;
  for (double value : values) out.mean += value / static_cast<double>(values.size());
  for (double value : values)
    out.std += (value - out.mean) * (value - out.mean) / static_cast<double>(values.size());
  out.std = std::sqrt(out.std);
  out.low = *std::ranges::min_element(values);
  out.high = *std::ranges::max_element(values);
  return out;
}

std::string group_row(const GroupSum& group, const BrowseAddress& at) {
  std::vector<double> scores, lengths;
  for (const TrajectoryLine* line : group.lines) {
    scores.push_back(line->score);
    lengths.push_back(line->sampled_tokens);
  }
  const Moments score = moments_of(scores), length = moments_of(lengths);
  BrowseAddress to = at;
  to.kind = group.kind;
  to.group = group.group;
  to.page = 0;
  return fmt::format(
      "<tr><td>{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td>"
      "<td class=\"num\">{} … {}</td><td class=\"num\">{}</td><td>{}</td><td>{}</td></tr>\n",
      link(browse_link("group", to), fmt::format("{} {}", group.kind, group.group)),
      group.lines.size(), format_number(score.mean), format_number(score.std),
      format_number(score.low), format_number(score.high), format_number(length.mean),
      escape_html(counted(group.lines, &TrajectoryLine::fate)),
      escape_html(counted(group.lines, &TrajectoryLine::stop_reason)));
}

/// Scores less the mean of their group: what a group-relative estimator makes of them.
std::vector<double> group_advantages(const std::vector<GroupSum>& groups) {
  std::vector<double> out;
  for (const GroupSum& group : groups) {
    if (group.kind != "train") continue;
    double mean = 0;
    for (const TrajectoryLine* line : group.lines)
      mean += line->score / static_cast<double>(group.lines.size());
    for (const TrajectoryLine* line : group.lines) out.push_back(line->score - mean);
  }
  return out;
}

std::string histograms(const StepView& view, const std::vector<GroupSum>& groups) {
  std::vector<double> scores, lengths;
  for (const TrajectoryLine& line : view.lines) {
    if (line.kind != view.charted) continue;
    scores.push_back(line.score);
    lengths.push_back(line.sampled_tokens);
  }
  const std::string out = histogram_part("score", scores) +
                          histogram_part("score less its group's mean", group_advantages(groups)) +
                          histogram_part("sampled tokens", lengths);
  if (out.empty()) return "";
  return fmt::format(
      "<div class=\"multiples\">\n{}</div>\n<p class=\"note\">{} trajectories of kind {}</p>\n",
      out, scores.size(), escape_html(view.charted));
}

/// A table of the parts; one alone is the score, several have a histogram each.
std::string reward_parts(const StepView& view) {
  if (view.reward_parts.empty()) return "";
  std::string out = fmt::format(
      "<div class=\"scroll\"><table><thead><tr><th>reward part</th><th class=\"num\">mean, before "
      "its weight</th><th class=\"num\">{} trajectories</th></tr></thead><tbody>\n",
      escape_html(view.charted));
  std::string figures;
  for (const auto& [name, part] : view.reward_parts) {
    const double mean = part.sum / static_cast<double>(part.count);
    out += fmt::format("<tr><td>{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td></tr>\n",
                       escape_html(name), format_number(mean), part.count);
    figures += histogram_part(name, part.values, mean);
  }
  out += "</tbody></table></div>\n";
  if (figures.empty() || view.reward_parts.size() < 2) return out;
  return out + "<div class=\"multiples\">\n" + figures + "</div>\n";
}

std::string line_row(const TrajectoryLine& line, const BrowseAddress& at) {
  BrowseAddress to = at;
  to.index = line.index;
  to.page = 0;
  return fmt::format(
      "<tr><td>{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td>"
      "<td class=\"num\">{}</td><td class=\"num\">{}</td><td>{}</td><td>{}</td></tr>\n",
      link(browse_link("trajectory", to), fmt::format("trajectory {}", line.index)),
      format_number(line.score), line.sampled_tokens, line.tokens, line.turns,
      line.version_min == line.version_max
          ? fmt::format("{}", line.version_max)
          : fmt::format("{} … {}", line.version_min, line.version_max),
      line.fate.empty() ? "-" : escape_html(line.fate), escape_html(line.stop_reason));
}

/// Columns that any of the steps has.
std::vector<size_t> columns_of(const StepList& list) {
  std::vector<size_t> columns;
  for (size_t i = 0; i < k_step_columns.size(); ++i)
    if (std::ranges::any_of(list.steps,
                            [&](const StepLine& line) { return !std::isnan(line.numbers[i]); }))
      columns.push_back(i);
  return columns;
}

/// The newest steps come first.
std::string steps_table(const StepList& list, size_t page) {
  const std::vector<size_t> columns = columns_of(list);
  std::string out =
      "<div class=\"scroll\"><table><thead><tr><th>step</th><th class=\"num\">trajectories</th>";
  for (size_t column : columns)
    out += fmt::format("<th class=\"num\">{}</th>", k_step_columns[column].second);
  out += "</tr></thead><tbody>\n";
  for (size_t i = page * k_page_lines; i < std::min(list.steps.size(), (page + 1) * k_page_lines);
       ++i) {
    const StepLine& line = list.steps[list.steps.size() - 1 - i];
    out +=
        fmt::format("<tr><td>{}</td><td class=\"num\">{}</td>",
                    link(fmt::format("step?step={}", line.step), fmt::format("step {}", line.step)),
                    line.trajectories);
    for (size_t column : columns)
      out +=
          fmt::format("<td class=\"num\">{}</td>",
                      std::isnan(line.numbers[column]) ? "-" : format_number(line.numbers[column]));
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>";
}

}  // namespace

std::string browse_link(std::string_view path, const BrowseAddress& to) {
  std::string out = fmt::format("{}?step={}", path, to.step);
  if (path != "step") out += fmt::format("&kind={}&group={}", query_encoded(to.kind), to.group);
  if (path == "trajectory" || path == "token" || path == "coloured")
    out += fmt::format("&index={}", to.index);
  if (!to.where.empty()) out += "&where=" + query_encoded(to.where);
  if (path == "token") return out + fmt::format("&at={}", to.token);
  if (to.page > 0) out += fmt::format("&page={}", to.page);
  return out;
}

std::string steps_page(const StepList& list, size_t page, bool is_live, std::string_view nonce) {
  std::string body;
  if (!list.error.empty()) body += fmt::format("<p class=\"bad\">{}</p>", escape_html(list.error));
  if (list.steps.empty() && list.error.empty())
    body += list.is_whole ? "<p class=\"note\">The stream has no trajectory yet.</p>"
                          : "<p class=\"note\">The stream is being read.</p>";
  const size_t pages = std::max<size_t>(1, (list.steps.size() + k_page_lines - 1) / k_page_lines);
  page = std::min(page, pages - 1);
  if (pages > 1) {
    body += "<nav>";
    if (page > 0) body += link(fmt::format("steps?page={}", page - 1), "later steps", "prev");
    body += fmt::format("<span>page {} of {}</span>", page + 1, pages);
    if (page + 1 < pages)
      body += link(fmt::format("steps?page={}", page + 1), "earlier steps", "next");
    body += "</nav>";
  }
  if (!list.steps.empty()) body += steps_table(list, page);
  if (!list.is_whole && list.error.empty())
    body += refresh_mark(k_soon_ms);
  else if (is_live)
    body += refresh_mark(k_live_ms);
  return page_shell({"trajectories", nonce, "steps"},
                    "<header><h1>Trajectories</h1></header>\n" + part("steps", "Steps", body));
}

std::string step_page(const StepView& view, const BrowseAddress& at, bool is_live,
                      std::string_view nonce) {
  std::string out =
      fmt::format("<p class=\"crumbs\">{} / step {}</p>\n<header><h1>Step {}</h1></header>\n",
                  link("steps", "run", "up"), at.step, at.step);
  if (!at.where.empty())
    out += fmt::format("<p class=\"where\">only trajectories with {}; {}</p>\n",
                       escape_html(at.where), link(fmt::format("step?step={}", at.step), "all"));
  out += filter_form(at);
  const std::vector<GroupSum> groups = groups_of(view);
  std::string state = progress_part(view) + fmt::format("<p>{} trajectories in {} groups</p>",
                                                        view.lines.size(), groups.size());
  if (!view.is_whole && view.error.empty())
    state += refresh_mark(k_soon_ms);
  else if (is_live)
    state += refresh_mark(k_live_ms);
  out += "<section id=\"state\">" + state + "</section>\n";
  const size_t pages = std::max<size_t>(1, (groups.size() + k_page_lines - 1) / k_page_lines);
  const size_t page = std::min(at.page, pages - 1);
  std::string table = pager("step", at, groups.size(), k_page_lines);
  table +=
      "<div class=\"scroll\"><table><thead><tr><th>group</th><th class=\"num\">trajectories</th>"
      "<th class=\"num\">score, mean</th><th class=\"num\">std</th><th class=\"num\">range</th>"
      "<th class=\"num\">sampled tokens</th><th>fate</th><th>ended by</th></tr></thead><tbody>\n";
  const size_t end = std::min(groups.size(), (page + 1) * k_page_lines);
  for (size_t i = page * k_page_lines; i < end; ++i) table += group_row(groups[i], at);
  table += "</tbody></table></div>";
  out += part("spread", "Distribution", histograms(view, groups));
  out += part("groups", "Groups", groups.empty() ? "" : table);
  out += part("parts", "Rewards", reward_parts(view));
  return page_shell({fmt::format("step {}", at.step), nonce, "steps"}, out);
}

std::string group_page(const StepView& view, const BrowseAddress& at, std::string_view nonce) {
  BrowseAddress near = at;
  near.page = 0;
  std::string out =
      fmt::format("<p class=\"crumbs\">{} / {} / {} {}</p>\n", link("steps", "run"),
                  link(browse_link("step", near), fmt::format("step {}", at.step), "up"),
                  escape_html(at.kind), at.group);
  out += fmt::format("<header><h1>Step {}, {} group {}</h1></header>\n", at.step,
                     escape_html(at.kind), at.group);
  const std::vector<GroupSum> groups = groups_of(view);
  const auto group = std::ranges::find_if(
      groups, [&](const GroupSum& each) { return each.kind == at.kind && each.group == at.group; });
  out += "<nav>";
  auto neighbour = [&](const GroupSum& to, std::string_view text, std::string_view rel) {
    near.kind = to.kind;
    near.group = to.group;
    out += link(browse_link("group", near), text, rel);
  };
  if (group != groups.end() && group != groups.begin())
    neighbour(*std::prev(group), "previous group", "prev");
  if (group != groups.end() && std::next(group) != groups.end())
    neighbour(*std::next(group), "next group", "next");
  out += "</nav>\n";
  std::string state = progress_part(view);
  if (!view.is_whole && view.error.empty()) state += refresh_mark(k_soon_ms);
  out += "<section id=\"state\">" + state + "</section>\n";
  std::string table;
  if (group == groups.end()) {
    table = "<p class=\"note\">No trajectory of this group has been found.</p>";
  } else {
    table = pager("group", at, group->lines.size(), k_page_lines);
    table +=
        "<div class=\"scroll\"><table><thead><tr><th>trajectory</th><th class=\"num\">score</th>"
        "<th class=\"num\">sampled tokens</th><th class=\"num\">all tokens</th>"
        "<th class=\"num\">turns</th><th class=\"num\">weights</th><th>fate</th><th>ended by</th>"
        "</tr></thead><tbody>\n";
    const size_t last = (group->lines.size() - 1) / k_page_lines;
    const size_t begin = std::min(at.page, last) * k_page_lines;
    for (size_t i = begin; i < std::min(group->lines.size(), begin + k_page_lines); ++i)
      table += line_row(*group->lines[i], at);
    table += "</tbody></table></div>";
  }
  out += part("trajectories", "Trajectories", table);
  return page_shell({fmt::format("step {}, group {}", at.step, at.group), nonce, "steps"}, out);
}

std::string waiting_page(std::string_view what, std::string_view error, std::string_view active,
                         std::string_view nonce) {
  const std::string body =
      error.empty()
          ? "<p class=\"note\" data-waiting=\"1\">It is being read.</p>" + refresh_mark(k_soon_ms)
          : fmt::format("<p class=\"bad\">{}</p>", escape_html(error));
  return page_shell(
      {std::string(what), nonce, active},
      fmt::format("<header><h1>{}</h1></header>\n<section id=\"state\">{}</section>\n",
                  escape_html(what), body));
}

}  // namespace cohort::observe
