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
    at.token = shown.first_token + i;
    out += fmt::format(
        "<tr><td class=\"num\"><a href=\"{}\">{}</a></td><td class=\"text\">{}</td>"
        "<td class=\"num\">{}</td><td>{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td>"
        "<td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num\">{}</td></tr>\n",
        escape_html(browse_link("token", at)), at.token, one_line(token.text), token.id,
        token.is_sampled ? "policy" : "shown", cell(token.is_sampled ? token.logp : k_not_measured),
        cell(token.ref_logp), cell(token.value), cell(token.reward),
        token.is_sampled ? std::to_string(token.version) : "-");
  }
  return out + "</tbody></table></div>";
}

/// The way up to the run, each with a link.
std::string crumbs(const TrajectoryPage& shown, const BrowseAddress& at, bool is_token) {
  BrowseAddress up = at;
  up.page = 0;
  std::string out = fmt::format(
      "<p class=\"crumbs\"><a href=\"steps\">run</a> / <a href=\"{}\">step {}</a> / <a href=\"{}\""
      "{}>{} group {}</a> / ",
      escape_html(browse_link("step", up)), shown.step, escape_html(browse_link("group", up)),
      is_token ? "" : " rel=\"up\"", escape_html(shown.kind), shown.group);
  if (!is_token) return out + fmt::format("trajectory {}</p>\n", shown.index);
  up.page = at.page;
  return out + fmt::format("<a href=\"{}#tokens\" rel=\"up\">trajectory {}</a> / token {}</p>\n",
                           escape_html(browse_link("trajectory", up)), shown.index, at.token);
}

std::string neighbour(const std::string& address, std::string_view text, std::string_view rel) {
  return fmt::format("<a href=\"{}\" rel=\"{}\">{}</a>", escape_html(address), rel, text);
}

std::vector<Fact> facts_of(const TokenLine& token) {
  std::vector<Fact> facts = {
      {"id", fmt::to_string(token.id)},
      {"from", token.is_sampled ? "the policy sampled it" : "shown to the policy"}};
  auto add = [&](std::string_view name, double value) {
    if (std::isfinite(value)) facts.push_back({std::string(name), fmt::format("{:.6f}", value)});
  };
  if (token.is_sampled) {
    add("log p, as sampled", token.logp);
    add("p", std::exp(token.logp));
    add("log p of the reference", token.ref_logp);
    add("log p less the reference's", token.logp - token.ref_logp);
    facts.push_back({"version of the weights", fmt::to_string(token.version)});
  }
  add("value", token.value);
  add("reward", token.reward);
  return facts;
}

/// The tokens around it, each a link.
std::string context_part(const TrajectoryPage& shown, BrowseAddress at) {
  constexpr size_t k_around = 40;
  const auto place = static_cast<size_t>(at.token - shown.first_token);
  std::string out = "<p class=\"context\">";
  const size_t end = std::min(shown.tokens.size(), place + k_around + 1);
  for (size_t i = place < k_around ? 0 : place - k_around; i < end; ++i) {
    const TokenLine& token = shown.tokens[i];
    at.token = shown.first_token + i;
    out += fmt::format("<a class=\"token{}\" href=\"{}\"{}>{}</a>",
                       token.is_sampled ? " sampled" : "", escape_html(browse_link("token", at)),
                       i == place ? " aria-current=\"true\"" : "",
                       token.text.empty() ? fmt::format("[{}]", token.id) : one_line(token.text));
  }
  return out + "</p>";
}

}  // namespace

std::string trajectory_page(const TrajectoryPage& shown, const BrowseAddress& at,
                            std::string_view nonce) {
  BrowseAddress to = at;
  to.page = 0;
  std::string out = crumbs(shown, at, false) + fmt::format("<header><h1>{}</h1></header>\n<nav>",
                                                           escape_html(shown.view.title));
  if (to.index = shown.previous.value_or(0); shown.previous)
    out += neighbour(browse_link("trajectory", to), "previous trajectory", "prev");
  if (to.index = shown.next.value_or(0); shown.next)
    out += neighbour(browse_link("trajectory", to), "next trajectory", "next");
  to.index = shown.index;
  out += fmt::format("<a href=\"{}\">coloured by any column</a>",
                     escape_html(browse_link("coloured", to)));
  out += "</nav>\n" + part("facts", "", facts_part(shown));
  ReportData data;
  data.trajectories = {shown.view};
  const std::string first = browse_link("token", to);
  data.trajectories.front().token_links = first.substr(0, first.size() - 1);  // without its 0
  out += part("turns", "Turns", trajectories_part(data));
  out += part("tokens", "Tokens", tokens_part(shown, at));
  return page_shell({shown.view.title, nonce, "steps"}, out);
}

std::string one_token_page(const TrajectoryPage& shown, const BrowseAddress& at,
                           std::string_view nonce) {
  const std::string title = fmt::format("token {}", at.token);
  std::string out = crumbs(shown, at, true);
  if (at.token < shown.first_token || at.token - shown.first_token >= shown.tokens.size())
    return page_shell(
        {title, nonce, "steps"},
        out + fmt::format("<p class=\"bad\">The trajectory has {} tokens.</p>", shown.token_count));
  const TokenLine& token = shown.tokens[static_cast<size_t>(at.token - shown.first_token)];
  out +=
      fmt::format("<header><h1>Token {} of {}</h1></header>\n<nav>", at.token, shown.token_count);
  BrowseAddress to = at;
  if (to.token = at.token - 1; at.token > 0)
    out += neighbour(browse_link("token", to), "previous token", "prev");
  if (to.token = at.token + 1; to.token < shown.token_count)
    out += neighbour(browse_link("token", to), "next token", "next");
  out += fmt::format("</nav>\n<pre class=\"one\">{}</pre>\n<dl class=\"facts\">\n",
                     token.text.empty() ? "no text" : one_line(token.text));
  for (const Fact& fact : facts_of(token))
    out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", fact.name, fact.value);
  out += "</dl>\n" + part("context", "Around it", context_part(shown, at));
  return page_shell({title, nonce, "steps"}, out);
}

}  // namespace cohort::observe
