/// A few trajectories that a person can read, turn by turn.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "runtime/observe/html.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/report_parts.hpp"

namespace cohort::observe {
namespace {

/// Returns the class of a FrozenLake symbol: player, start/ice, hole, goal, player in a hole,
/// player on the goal.
std::string_view cell_class(std::string_view symbol) {
  if (symbol == "P") return "player";
  if (symbol == "_" || symbol == "S" || symbol == ".") return "ice";
  if (symbol == "O" || symbol == "H") return "hole";
  if (symbol == "G") return "goal";
  if (symbol == "X") return "fallen";
  if (symbol == "√") return "reached";
  return "";
}

/// Returns the cells of a line that is a row of a grid (at least two symbols, nothing else but
/// spaces).
std::vector<std::string_view> grid_row(std::string_view line) {
  std::vector<std::string_view> cells;
  while (!line.empty()) {
    size_t length = std::max<size_t>(1, utf8_bytes(line));
    std::string_view symbol = line.substr(0, length);
    line.remove_prefix(length);
    if (symbol == " " || symbol == "\t" || symbol == "\r") continue;
    if (cell_class(symbol).empty()) return {};
    cells.push_back(symbol);
  }
  if (cells.size() < 2) cells.clear();
  return cells;
}

struct Observation {
  std::vector<std::vector<std::string_view>> grid;  // the last block of grid rows
  bool has_other_text = false;
};

Observation parse_observation(std::string_view text) {
  Observation out;
  bool in_grid = false;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    auto cells = grid_row(line);
    if (!cells.empty()) {
      if (!in_grid) out.grid.clear();
      out.grid.push_back(std::move(cells));
      in_grid = true;
    } else {
      in_grid = false;
      out.has_other_text |= line.find_first_not_of(" \t\r") != std::string_view::npos;
    }
  }
  if (out.grid.size() < 2) out.grid.clear();
  return out;
}

std::string observation_part(std::string_view text) {
  Observation parsed = parse_observation(text);
  if (parsed.grid.empty()) return fmt::format("<pre class=\"seen\">{}</pre>", escape_html(text));
  std::string out = "<pre class=\"grid-map\">";
  for (const auto& row : parsed.grid) {
    for (std::string_view cell : row)
      out += fmt::format("<b class=\"{}\">{}</b>", cell_class(cell), escape_html(cell));
    out += '\n';
  }
  out += "</pre>";
  if (parsed.has_other_text)
    out += fmt::format(
        "<details class=\"prompt\"><summary>text shown</summary><pre>{}</pre></details>",
        escape_html(text));
  return out;
}

/// Returns the class of a token by its probability: t0 (sure) … t4 (below 5 %).
int surprise_class(double logp) {
  double probability = std::exp(logp);
  return probability >= 0.9    ? 0
         : probability >= 0.5  ? 1
         : probability >= 0.2  ? 2
         : probability >= 0.05 ? 3
                               : 4;
}

std::string token_part(const TokenView& token, const std::string& address) {
  const std::string_view tag = address.empty() ? "span" : "a";
  const std::string shade =
      std::isfinite(token.logp) ? fmt::format(" t{}", surprise_class(token.logp)) : "";
  std::string out = fmt::format("<{} class=\"token{}\"", tag, shade);
  if (!address.empty()) out += fmt::format(" href=\"{}\"", escape_html(address));
  if (std::isfinite(token.logp))
    out += fmt::format(" title=\"p = {:.3f}, log p = {:.3f}\"", std::exp(token.logp), token.logp);
  return out + fmt::format(">{}</{}>", escape_html(token.text), tag);
}

std::string answer_part(const TurnView& turn, const std::string& links) {
  if (turn.tokens.empty())
    return fmt::format("<p class=\"answer\">{}</p>", escape_html(turn.answer));
  std::string out = "<p class=\"answer\">";
  double sum = 0;
  for (size_t i = 0; i < turn.tokens.size(); ++i) {
    if (std::isfinite(turn.tokens[i].logp)) sum += turn.tokens[i].logp;
    out += token_part(turn.tokens[i],
                      links.empty() ? "" : fmt::format("{}{}", links, turn.first_token + i));
  }
  return out + fmt::format("</p><p class=\"logp\">log p {:.2f} (p {:.2f})</p>", sum, std::exp(sum));
}

std::string turn_part(const TurnView& turn, size_t number, const std::string& links) {
  std::string out = fmt::format("<li class=\"turn\"><h4>turn {}</h4>", number);
  out += observation_part(turn.observation);
  out += answer_part(turn, links);
  out += fmt::format("<p class=\"flags\"><span class=\"{}\">reward {}</span>",
                     turn.reward > 0   ? "good"
                     : turn.reward < 0 ? "bad"
                                       : "",
                     format_number(turn.reward));
  if (!turn.is_valid)
    out += "<span class=\"bad\">invalid answer</span>";
  else if (!turn.is_effective)
    out += "<span class=\"warn\">no effect</span>";
  return out + "</p></li>";
}

std::string trajectory_part(const TrajectoryView& trajectory) {
  std::string out = fmt::format("<article class=\"card\"><h3>{}</h3><p class=\"chips\">",
                                escape_html(trajectory.title));
  auto chip = [&](std::string_view css_class, std::string_view text) {
    out += fmt::format("<span class=\"chip {}\">{}</span>", css_class, escape_html(text));
  };
  if (!trajectory.kind.empty()) chip("", trajectory.kind);
  chip(trajectory.score > 0 ? "good" : "bad", "score " + format_number(trajectory.score));
  if (!trajectory.stop_reason.empty()) chip("", "ended by " + trajectory.stop_reason);
  chip("", fmt::format("seed {}", trajectory.seed));
  out += "</p><ol class=\"turns\">";
  for (size_t i = 0; i < trajectory.turns.size(); ++i)
    out += turn_part(trajectory.turns[i], i + 1, trajectory.token_links);
  return out + "</ol></article>\n";
}

}  // namespace

std::string trajectories_part(const ReportData& data) {
  if (data.trajectories.empty()) return "";
  std::string out =
      "<p class=\"note key-line\">Token shading: <span class=\"token t0\">p ≥ 0.9</span> "
      "<span class=\"token t1\">≥ 0.5</span> <span class=\"token t2\">≥ 0.2</span> "
      "<span class=\"token t3\">≥ 0.05</span> <span class=\"token t4\">less</span>";
  bool has_grid = false;
  for (const TrajectoryView& trajectory : data.trajectories) {
    for (const TurnView& turn : trajectory.turns)
      has_grid |= !parse_observation(turn.observation).grid.empty();
  }
  if (has_grid)
    out +=
        " · grid: <b class=\"player\">P</b> player <b class=\"ice\">_</b> ice "
        "<b class=\"hole\">O</b> hole <b class=\"goal\">G</b> goal "
        "<b class=\"fallen\">X</b> fell in <b class=\"reached\">√</b> arrived";
  out += "</p>\n";
  for (const TrajectoryView& trajectory : data.trajectories) out += trajectory_part(trajectory);
  return out;
}

}  // namespace cohort::observe
