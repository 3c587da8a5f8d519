/// One trajectory: its facts, its turns with coloured tokens, and its tokens one a line.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/observe/browse_page.hpp"
#include "runtime/observe/html.hpp"
#include "runtime/observe/page_shell.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/report_parts.hpp"

namespace cohort::observe {
namespace {

std::string facts_part(const TrajectoryPage& shown) {
  std::string out = "<dl class=\"facts\">\n";
  for (const Fact& fact : shown.facts)
    out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(fact.name),
                       escape_html(fact.value));
  out += "</dl>\n";
  if (shown.rewards.empty()) return out;
  out +=
      "<details open><summary>rewards and metrics</summary><div class=\"scroll\"><table><tbody>\n";
  for (const Fact& fact : shown.rewards)
    out += fmt::format("<tr><td>{}</td><td class=\"words\">{}</td></tr>\n", escape_html(fact.name),
                       escape_html(fact.value));
  return out + "</tbody></table></div></details>\n";
}

std::string cell(double value) { return std::isfinite(value) ? fmt::format("{:.4f}", value) : "-"; }

/// A line end as "\n": every token is one line of the table.
std::string one_line(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : std::string(1, c);
  return escape_html(out);
}

std::string tokens_part(const TrajectoryPage& shown, BrowseAddress at) {
  std::string out = "<nav>";
  const size_t pages = (shown.token_count + k_page_tokens - 1) / k_page_tokens;
  const size_t page = shown.first_token / k_page_tokens;
  for (size_t i = page < 4 ? 0 : page - 4; i < std::min(pages, page + 5) && pages > 1; ++i) {
    at.page = i;
    out +=
        fmt::format("<a href=\"{}#tokens\"{}>{} …</a>", escape_html(browse_link("trajectory", at)),
                    i == page ? " aria-current=\"page\"" : "", i * k_page_tokens);
  }
  out +=
      "</nav><div class=\"scroll\"><table><thead><tr><th class=\"num\">at</th><th>token</th>"
      "<th class=\"num\">id</th><th>from</th><th class=\"num\">log p</th><th class=\"num\">"
      "reference</th><th class=\"num\">value</th><th class=\"num\">reward</th><th class=\"num\">"
      "weights</th></tr></thead><tbody>\n";
  for (size_t i = 0; i < shown.tokens.size(); ++i) {
    const TokenLine& token = shown.tokens[i];
    out += fmt::format(
        "<tr id=\"t{}\"><td class=\"num\">{}</td><td class=\"text\">{}</td><td class=\"num\">{}"
        "</td><td>{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}"
        "</td><td class=\"num\">{}</td><td class=\"num\">{}</td></tr>\n",
        shown.first_token + i, shown.first_token + i, one_line(token.text), token.id,
        token.is_sampled ? "policy" : "prompt",
        cell(token.is_sampled ? token.logp : k_not_measured), cell(token.ref_logp),
        cell(token.value), cell(token.reward),
        token.is_sampled ? std::to_string(token.version) : "-");
  }
  return out + "</tbody></table></div>";
}

}  // namespace

std::string trajectory_page(const TrajectoryPage& shown, const BrowseAddress& at,
                            std::string_view nonce) {
  BrowseAddress up = at;
  up.page = 0;
  std::string out = fmt::format(
      "<p class=\"crumbs\"><a href=\"steps\">run</a> / <a href=\"{}\">step {}</a> / <a href=\"{}\" "
      "rel=\"up\">{} {}</a> / {}</p>\n<header><h1>{}</h1></header>\n",
      escape_html(browse_link("step", up)), shown.step, escape_html(browse_link("group", up)),
      escape_html(shown.kind), shown.group, shown.index, escape_html(shown.view.title));
  out += "<section id=\"state\"></section>\n";
  out += part("facts", "", facts_part(shown));
  ReportData data;
  data.trajectories = {shown.view};
  out += part("turns", "Turns", trajectories_part(data));
  out += part("tokens", "Tokens", tokens_part(shown, at));
  return page_shell({shown.view.title, nonce, "steps"}, out);
}

}  // namespace cohort::observe
