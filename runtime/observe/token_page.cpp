#include "runtime/observe/token_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "runtime/observe/html.hpp"
#include "runtime/observe/progress.hpp"

namespace cohort::observe {
namespace {

// Colours as in report.html: Okabe and Ito's blue and orange, told apart with any colour vision.
constexpr std::string_view k_token_style = R"css(
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#1c2430;--soft:#5b6675;--line:#dfe3e8;
--axis:#9aa4b1;--tint:#eef1f5;--good:#00795a;--bad:#b3400a;--up:0,114,178;--down:213,94,0;
--c0:#0072b2;--c1:#d98c00;--c2:#009e73;--c3:#c6499a;--c4:#d55e00;--c5:#56a9dd;--c6:#7d7d7d;
--c7:#8c6d31;--weak:.18;--mid:.36;--strong:.62}
@media (prefers-color-scheme:dark){:root{--bg:#12161c;--card:#1a2028;--ink:#e6eaf0;--soft:#9aa6b5;
--line:#2c3540;--axis:#66717f;--tint:#232b35;--good:#3ecfa0;--bad:#ff8b57;--up:78,166,230;
--down:240,122,58;--c0:#4ea6e6;--c1:#f0b340;--c2:#2fc49b;--c3:#e893c6;--c4:#f07a3a;--c5:#9bd4f8;
--c6:#a8a8a8;--c7:#c2a25a}}
*{box-sizing:border-box}
a{color:var(--c0)}
body{margin:0;background:var(--bg);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif}
main{max-width:1040px;margin:0 auto;padding:24px 20px 60px}
h1{margin:0 0 4px;font-size:24px;line-height:1.25;overflow-wrap:anywhere}
h2{margin:0;font-size:13px;font-weight:600;color:var(--soft)}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(190px,1fr));gap:8px 20px;
margin:14px 0}
.facts dt{color:var(--soft);font-size:12px}
.facts dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
.notes{color:var(--soft);font-size:13px;margin:0 0 12px;padding-left:18px}
details{margin:0 0 14px}
summary{cursor:pointer}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th{text-align:left;color:var(--soft);font-weight:600}
th,td{padding:4px 14px 4px 0;border-bottom:1px solid var(--line);vertical-align:top}
.num{text-align:right;white-space:nowrap}
td.text,.seen,.tokens{font:13px/1.75 ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",
monospace}
td.text{white-space:pre}
.bar{position:sticky;top:0;z-index:1;background:var(--bg);padding:10px 0;margin:0 0 8px;
border-bottom:1px solid var(--line)}
.bar input{position:absolute;opacity:0;pointer-events:none}
.bar label{display:inline-block;padding:3px 11px;margin:0 4px 6px 0;border:1px solid var(--axis);
border-radius:16px;font-size:13px;cursor:pointer;background:var(--card)}
.bar input:checked+label{background:var(--ink);color:var(--bg);border-color:var(--ink)}
.bar input:focus-visible+label{outline:2px solid var(--c0);outline-offset:2px}
.legend{display:none;font-size:12px;color:var(--soft)}
.legend i{font-style:normal;color:var(--ink);padding:1px 7px;border-radius:3px;margin-right:4px}
.part{background:var(--card);border:1px solid var(--line);border-left:4px solid var(--axis);
border-radius:6px;padding:8px 12px;margin:0 0 10px}
.part.answer{border-left-color:var(--c0)}
.part header{display:flex;flex-wrap:wrap;gap:2px 14px;font-size:12px;color:var(--soft);
margin-bottom:4px}
.part .bad{color:var(--bad)}
.tokens,.seen{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}
.seen{color:var(--soft);border-bottom:1px dashed var(--line);margin-bottom:6px;padding-bottom:6px}
.tokens span{border-radius:2px;box-shadow:inset -1px 0 0 var(--line)}
.tokens .id{padding:0 4px;margin-right:3px}
.tokens .end{color:var(--axis)}
@media (max-width:640px){main{padding:16px 12px 40px}.facts{grid-template-columns:1fr 1fr}}
@media print{.bar{position:static}.part{break-inside:avoid}}
)css";

constexpr int k_levels = 7;  // of a colour from below zero to above; the middle one is none
constexpr size_t k_versions_max = 8;
constexpr size_t k_table_rows_max = 5000;

/// One way to colour tokens: a class for each token, styles for the classes, and what they mean.
struct Colouring {
  std::string id, title, style, legend;
  std::function<int(size_t)> level;  // of a token; below 0: none
};

std::string rule(std::string_view id, int level, std::string_view declarations) {
  return fmt::format("main:has(#by-{0}:checked) .{0}{1}{{{2}}}\n", id, level, declarations);
}

std::string swatch(std::string_view id, int level, std::string_view text) {
  return fmt::format("<i class=\"{}{}\">{}</i>", id, level, text);
}

/// The classes of a token's probability are those of report.html.
Colouring by_logp(const TokenPage& shown) {
  static constexpr double k_least[] = {.9, .5, .2, .05, 0};
  Colouring x{"l", "log-prob", "", "probability of each sampled token: ", {}};
  constexpr std::string_view k_fills[] = {
      "box-shadow:inset 0 0 0 1px var(--line)", "background:rgba(217,140,0,.18)",
      "background:rgba(217,140,0,.38)", "background:rgba(213,94,0,.46)",
      "background:rgba(213,94,0,.74)"};
  constexpr std::string_view k_names[] = {"p ≥ .9", "≥ .5", "≥ .2", "≥ .05", "less"};
  for (int i = 0; i < 5; ++i) {
    x.style += rule(x.id, i, k_fills[i]);
    x.legend += swatch(x.id, i, k_names[i]);
  }
  x.level = [&shown](size_t i) {
    const TokenLine& token = shown.tokens[i];
    if (!token.is_sampled || !std::isfinite(token.logp)) return -1;
    int level = 0;
    while (std::exp(token.logp) < k_least[level]) ++level;
    return level;
  };
  return x;
}

struct Signed {
  std::string_view id, title, meaning;
  std::function<double(size_t)> value;
};

/// Blue above zero, orange below, by thirds of the largest value.
Colouring by_sign(const TokenPage& shown, const Signed& of) {
  double largest = 0;
  for (size_t i = 0; i < shown.tokens.size(); ++i)
    if (const double value = of.value(i); std::isfinite(value))
      largest = std::max(largest, std::abs(value));
  Colouring x{std::string(of.id), std::string(of.title), "", "", {}};
  constexpr std::string_view k_strengths[] = {"strong", "mid", "weak"};
  for (int i = 0; i < k_levels; ++i) {
    const int distance = i - k_levels / 2;
    x.style +=
        distance == 0
            ? rule(x.id, i, "box-shadow:inset 0 0 0 1px var(--line)")
            : rule(x.id, i,
                   fmt::format("background:rgba(var(--{}),var(--{}))", distance < 0 ? "down" : "up",
                               k_strengths[k_levels / 2 - std::abs(distance)]));
  }
  const std::string most = format_number(largest);
  x.legend = fmt::format("{}: {}{}{}", of.meaning, swatch(x.id, 0, "−" + most),
                         swatch(x.id, k_levels / 2, "0"), swatch(x.id, k_levels - 1, "+" + most));
  x.level = [value = of.value, largest](size_t i) {
    const double v = value(i);
    if (!std::isfinite(v)) return -1;
    if (largest == 0 || v == 0) return k_levels / 2;
    const int third = std::clamp(static_cast<int>(std::ceil(std::abs(v) / largest * 3)), 1, 3);
    return k_levels / 2 + (v < 0 ? -third : third);
  };
  return x;
}

Colouring by_mask(const TokenPage& shown) {
  Colouring x{"m", "mask", "", "", {}};
  x.style = rule("m", 1, "background:rgba(var(--up),var(--mid))") + rule("m", 0, "opacity:.75");
  x.legend = swatch("m", 1, "the policy sampled it: it is trained on") +
             swatch("m", 0, "shown to the policy");
  x.level = [&shown](size_t i) { return shown.tokens[i].is_sampled ? 1 : 0; };
  return x;
}

Colouring by_version(const TokenPage& shown) {
  std::vector<uint64_t> versions;
  for (const TokenLine& token : shown.tokens)
    if (token.is_sampled) versions.push_back(token.version);
  std::ranges::sort(versions);
  versions.erase(std::ranges::unique(versions).begin(), versions.end());
  Colouring x{"v", "weight version", "", "weights that sampled the token: ", {}};
  for (size_t i = 0; i < std::min(versions.size(), k_versions_max); ++i) {
    const int level = static_cast<int>(i);
    x.style += rule("v", level,
                    fmt::format("background:color-mix(in srgb,var(--c{}) 38%,transparent)", i));
    std::string name = fmt::to_string(versions[i]);
    for (size_t same = i + k_versions_max; same < versions.size(); same += k_versions_max)
      name += fmt::format(", {}", versions[same]);
    x.legend += swatch("v", level, name);
  }
  x.level = [&shown, versions](size_t i) {
    if (!shown.tokens[i].is_sampled) return -1;
    const auto at = std::ranges::lower_bound(versions, shown.tokens[i].version);
    return static_cast<int>(static_cast<size_t>(at - versions.begin()) % k_versions_max);
  };
  return x;
}

/// The columns that the trajectory has, the most looked at first.
std::vector<Colouring> colourings_of(const TokenPage& shown) {
  std::vector<Colouring> all = {by_logp(shown)};
  const auto add = [&](const Signed& of) {
    for (size_t i = 0; i < shown.tokens.size(); ++i)
      if (std::isfinite(of.value(i))) return all.push_back(by_sign(shown, of));
  };
  const auto sampled = [&shown](size_t i, double value) {
    return shown.tokens[i].is_sampled ? value : k_not_measured;
  };
  add({"a", "advantage", "advantage of each sampled token", [&shown](size_t i) {
         return shown.advantages.empty() ? k_not_measured : shown.advantages[i];
       }});
  all.push_back(by_mask(shown));
  all.push_back(by_version(shown));
  add({"r", "against reference", "log-prob minus the reference's", [&shown, sampled](size_t i) {
         return sampled(i, shown.tokens[i].logp - shown.tokens[i].ref_logp);
       }});
  add({"u", "value", "the critic's value",
       [&shown, sampled](size_t i) { return sampled(i, shown.tokens[i].value); }});
  add({"w", "token reward", "reward given to the token",
       [&shown, sampled](size_t i) { return sampled(i, shown.tokens[i].reward); }});
  return all;
}

std::string bar_part(const std::vector<Colouring>& all) {
  std::string out = "<nav class=\"bar\" aria-label=\"colour of tokens\">\n";
  for (const Colouring& x : all)
    out += fmt::format(
        "<input type=\"radio\" name=\"by\" id=\"by-{0}\"{1}><label for=\"by-{0}\">{2}</label>\n",
        x.id, &x == &all.front() ? " checked" : "", x.title);
  for (const Colouring& x : all)
    out += fmt::format("<div class=\"legend of-{}\">{}</div>\n", x.id, x.legend);
  return out + "</nav>\n";
}

std::string four_digits(double value) {
  return std::isfinite(value) ? fmt::format("{:.4f}", value) : "-";
}

std::string tip_of(const TokenPage& shown, size_t i) {
  const TokenLine& token = shown.tokens[i];
  std::string out = fmt::format("token {}, id {}", i, token.id);
  const auto add = [&](std::string_view name, double value) {
    if (std::isfinite(value)) out += fmt::format("\n{} {:.4f}", name, value);
  };
  if (token.is_sampled && std::isfinite(token.logp))
    out += fmt::format("\nlog p {:.4f} (p {:.3f})", token.logp, std::exp(token.logp));
  if (token.is_sampled) add("reference", token.ref_logp);
  if (!shown.advantages.empty()) add("advantage", shown.advantages[i]);
  add("value", token.value);
  add("reward", token.reward);
  if (token.is_sampled) out += fmt::format("\nweights {}", token.version);
  return escape_html(out);
}

/// A line end is seen, and ends the line.
std::string token_text(const TokenLine& token) {
  if (token.text.empty()) return fmt::to_string(token.id);
  std::string out;
  std::string_view text = token.text;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    out += escape_html(text.substr(0, end)) + "<b class=\"end\">↵</b>\n";
    text.remove_prefix(end + 1);
  }
  return out + escape_html(text);
}

std::string tokens_of(const TokenPage& shown, const TokenPart& part,
                      const std::vector<Colouring>& all) {
  std::string out = "<p class=\"tokens\">";
  for (size_t i = part.begin; i < std::min<size_t>(part.end, shown.tokens.size()); ++i) {
    std::string classes = shown.tokens[i].text.empty() ? " id" : "";
    for (const Colouring& x : all)
      if (const int level = x.level(i); level >= 0) classes += fmt::format(" {}{}", x.id, level);
    if (!classes.empty()) classes = fmt::format(" class=\"{}\"", classes.substr(1));
    out += fmt::format("<span{} title=\"{}\">{}</span>", classes, tip_of(shown, i),
                       token_text(shown.tokens[i]));
  }
  return out + "</p>";
}

std::string parts_part(const TokenPage& shown, const std::vector<Colouring>& all) {
  std::string out;
  for (const TokenPart& part : shown.parts) {
    out += fmt::format(
        "<section class=\"part{}\"><header><h2>{}</h2><span>{} tokens</span><span{}>{}</span>"
        "</header>",
        part.is_answer ? " answer" : "", escape_html(part.title), part.end - part.begin,
        part.is_faulty ? " class=\"bad\"" : "", escape_html(part.note));
    if (!part.text.empty())
      out += fmt::format("<pre class=\"seen\">{}</pre>", escape_html(part.text));
    out += tokens_of(shown, part, all) + "</section>\n";
  }
  return out;
}

std::string table_part(const TokenPage& shown) {
  std::string out =
      "<details><summary>all tokens, one a line</summary><div class=\"scroll\"><table><thead><tr>"
      "<th class=\"num\">at</th><th class=\"num\">id</th><th>token</th><th>from</th>"
      "<th class=\"num\">log p</th><th class=\"num\">reference</th><th class=\"num\">advantage</th>"
      "<th class=\"num\">value</th><th class=\"num\">reward</th><th class=\"num\">weights</th>"
      "</tr></thead><tbody>\n";
  const size_t rows = std::min(shown.tokens.size(), k_table_rows_max);
  for (size_t i = 0; i < rows; ++i) {
    const TokenLine& token = shown.tokens[i];
    out += fmt::format(
        "<tr><td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"text\">{}</td>"
        "<td>{}</td>",
        i, token.id, token_text(token), token.is_sampled ? "policy" : "shown");
    const double advantage = shown.advantages.empty() ? k_not_measured : shown.advantages[i];
    for (const double value : {token.is_sampled ? token.logp : k_not_measured, token.ref_logp,
                               advantage, token.value, token.reward})
      out += fmt::format("<td class=\"num\">{}</td>", four_digits(value));
    out += fmt::format("<td class=\"num\">{}</td></tr>\n",
                       token.is_sampled ? fmt::to_string(token.version) : "-");
  }
  out += "</tbody></table></div>";
  if (rows < shown.tokens.size())
    out += fmt::format("<p>{} more: `traj show --tokens` prints them.</p>",
                       shown.tokens.size() - rows);
  return out + "</details>\n";
}

std::string scores_part(const TokenPage& shown) {
  if (shown.scores.empty()) return "";
  std::string out =
      "<details open><summary>score and metrics</summary><div class=\"scroll\"><table><tbody>\n";
  for (const Fact& fact : shown.scores)
    out += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escape_html(fact.name),
                       escape_html(fact.value));
  return out + "</tbody></table></div></details>\n";
}

}  // namespace

std::string token_page(const TokenPage& shown) {
  const std::vector<Colouring> all = colourings_of(shown);
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n";
  out += fmt::format("<title>{}</title>\n<style>{}", escape_html(shown.title), k_token_style);
  for (const Colouring& x : all)
    out += x.style + fmt::format("main:has(#by-{0}:checked) .of-{0}{{display:block}}\n", x.id);
  out += fmt::format("</style>\n</head>\n<body>\n<main>\n{}<h1>{}</h1>\n<dl class=\"facts\">\n",
                     shown.up.empty()
                         ? ""
                         : fmt::format("<p><a href=\"{}\">back</a></p>\n", escape_html(shown.up)),
                     escape_html(shown.title));
  for (const Fact& fact : shown.facts)
    out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(fact.name),
                       escape_html(fact.value));
  out += "</dl>\n" + scores_part(shown);
  if (!shown.notes.empty()) {
    out += "<ul class=\"notes\">\n";
    for (const std::string& note : shown.notes)
      out += fmt::format("<li>{}</li>\n", escape_html(note));
    out += "</ul>\n";
  }
  out += bar_part(all) + parts_part(shown, all) + table_part(shown);
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace cohort::observe
