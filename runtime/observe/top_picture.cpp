#include "runtime/observe/top_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/observe/console.hpp"
#include "runtime/observe/console_row.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/run_stages.hpp"
#include "runtime/observe/terminal.hpp"

namespace cohort::observe {
namespace {

using TextLines = std::vector<std::string>;

constexpr size_t k_top_columns_min = 20;
constexpr size_t k_top_wide = 60;  // below it tables lose the columns that explain
constexpr size_t k_sentence_lines_max = 6;
constexpr size_t k_panel_cells_max = 120;  // wider bars are not easier to read

/// A heading and its rows, of which some may be left out.
struct TopSection {
  std::string heading;
  TextLines rows;
};

struct TopPage {
  size_t columns;
  bool color;

  bool is_wide() const { return columns >= k_top_wide; }
  std::string paint(std::string_view text, Style style) const { return styled(text, style, color); }
};

/// Returns the words on lines of at most `columns` cells; the last of `lines_max` is cut.
TextLines word_lines(const std::string& text, size_t columns, size_t lines_max) {
  TextLines lines;
  std::string line;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    const bool is_full = cell_count(line) + 1 + cell_count(word) > columns;
    if (!line.empty() && is_full && lines.size() + 1 < lines_max) {
      lines.push_back(std::exchange(line, ""));
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  if (!line.empty()) lines.push_back(line);
  for (std::string& each : lines) each = fit(each, columns);
  return lines;
}

TextLines split_lines(std::string_view text) {
  TextLines lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

ConsoleState console_of(const RunView& run, double now) {
  ConsoleState state;
  state.total_steps = run.total_steps;
  state.references = run.references;
  for (const Evaluation& each : run.evaluations.values()) {
    state.success_sampled.push_back(each.sampled);
    if (std::isfinite(each.greedy)) state.success_greedy.push_back(each.greedy);
    state.success_step = each.step;
  }
  const bool has_evaluations = !state.success_sampled.empty();
  if (run.last != nullptr) {
    show_row(state, *run.last);
    state.loss = run.last->number("loss");
    if (has_evaluations && run.last->number("val/success")) {  // it is the last of them
      state.success_sampled.pop_back();
      state.success_greedy.pop_back();
    }
  }
  state.run_name = run.name.empty() ? run.run_id : run.name;
  state.stage = run.stage;
  state.phase = run.phase;
  state.stage_done = run.stage_done;
  if (is_over(run) || run.state == RunState::starting) {
    state.stage = to_string(run.state);
    state.phase.clear();
    state.stage_done = -1;
  }
  state.step = run.step;
  state.trajectories = run.trajectories;
  state.is_stopping = run.state == RunState::stopping;
  state.elapsed_seconds = (run.ended > 0 ? run.ended : now) - run.started;
  if (run.eta && !is_over(run)) state.eta_seconds = *run.eta - now;
  return state;
}

std::string doing_of(const RunView& run, const CardView& card) {
  if (card.is_lost) return "LOST";
  for (const RunStage& stage : run_stages())
    if (has_role(stage, card) && works_now(stage, run)) return run.phase;
  return "-";
}

std::string holds_text(const std::map<std::string, uint64_t>& objects) {
  std::string text;
  for (const auto& [object, bytes] : objects)
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", printable(object), format_bytes(bytes));
  return text.empty() ? "-" : text;
}

TopSection cards_section(const TopPage& page, const RunView& run) {
  TopSection section;
  constexpr size_t k_card = 8, k_role = 22, k_bar = 10, k_now = 15;
  section.heading = page.is_wide() ? pad_right("card", k_card) + pad_right("role", k_role) +
                                         pad_right("now", k_now) + "bytes on it"
                                   : "cards";
  const auto objects = objects_on_cards(run);
  for (const CardView& card : run.cards) {
    const auto found = objects.find(card.card);
    const auto held = found == objects.end() ? std::map<std::string, uint64_t>() : found->second;
    uint64_t used = card.used_bytes;
    if (used == 0)  // a folder tells of moves alone
      for (const auto& [object, bytes] : held) used += bytes;
    const double budget = static_cast<double>(std::max<uint64_t>(1, card.budget_bytes));
    const double share = static_cast<double>(used) / budget;
    const std::string now = doing_of(run, card);
    const Style style = card.is_lost ? Style::red : now == "-" ? Style::dim : Style::green;
    const std::string bytes =
        fmt::format("{} / {}", format_bytes(used), format_bytes(card.budget_bytes));
    std::string line = pad_right(fmt::format("{}", card.card), page.is_wide() ? k_card : 4);
    if (page.is_wide())
      line += pad_right(printable(card.role), k_role - 1) + " " +
              page.paint(pad_right(printable(now), k_now - 1), style) + " " +
              page.paint(bar(share, k_bar), share > 0.9 ? Style::red : Style::blue) + " " + bytes +
              page.paint("  " + holds_text(held), Style::dim);
    else
      line +=
          page.paint(pad_right(printable(now == "-" ? card.role : now), 14), style) + " " + bytes;
    section.rows.push_back(line);
  }
  return section;
}

std::string per_second(double bytes_per_s) {
  return std::isfinite(bytes_per_s) ? format_bytes(static_cast<uint64_t>(bytes_per_s)) + "/s" : "-";
}

TopSection links_section(const TopPage& page, const TopData& top) {
  TopSection section;
  constexpr size_t k_name_min = 12, k_numbers = 22, k_all_numbers = 51;
  const size_t numbers = page.is_wide() ? k_all_numbers : k_numbers;
  const size_t name = std::max(k_name_min, page.columns - std::min(page.columns, numbers));
  section.heading = pad_right("link", name) +
                    (page.is_wide() ? fmt::format("{:>10}{:>10}{:>10}{:>11}{:>8}", "queued", "of",
                                                  "credit", "rate", "resent")
                                    : fmt::format("{:>11}{:>11}", "queued", "rate"));
  if (top.flow == nullptr) return section;
  for (const LinkLine& link : top.flow->links) {
    const bool is_full = link.is_producer && link.queue_bytes_max > 0 &&
                         link.queued_bytes * 10 >= link.queue_bytes_max * 9;
    const std::string queued =
        link.is_producer ? format_bytes(link.queued_bytes) : std::string("-");
    std::string line =
        pad_right(printable(link.name) + (link.is_producer ? "" : " (in)"), name - 1) + " ";
    line += page.paint(fmt::format("{:>{}}", queued, page.is_wide() ? 10 : 11),
                       is_full ? Style::red : Style::none);
    if (page.is_wide())
      line += fmt::format("{:>10}{:>10}{:>11}{:>8}",
                          link.is_producer ? format_bytes(link.queue_bytes_max) : std::string("-"),
                          link.is_producer ? std::string("-") : format_bytes(link.credit_bytes),
                          per_second(link.bytes_per_s), link.resent);
    else
      line += fmt::format("{:>11}", per_second(link.bytes_per_s));
    section.rows.push_back(line);
  }
  return section;
}

TopSection waits_section(const FlowView& flow) {
  TopSection section;
  section.heading = "who waits for whom";
  for (const WaitLine& wait : flow.waits)
    section.rows.push_back(fmt::format("{:>8}  {} for {}{}", format_duration(wait.seconds),
                                       printable(wait.who), printable(wait.what),
                                       wait.where.empty() ? "" : ", in " + printable(wait.where)));
  if (!flow.note.empty()) section.rows.push_back(printable(flow.note));
  return section;
}

/// The newest first.
TopSection events_section(const TopPage& page, const RunView& run) {
  TopSection section;
  section.heading = "events";
  for (auto event = run.events.rbegin(); event != run.events.rend(); ++event) {
    const bool is_bad = event->kind == "error" || event->kind == "lost";
    const bool is_odd = event->kind == "warning" || event->kind == "self_check";
    section.rows.push_back(
        fmt::format("{:>8}  step {}  ", format_duration(event->time_s), event->step) +
        page.paint(fmt::format("{}: {}", printable(event->kind), printable(event->text)),
                   is_bad   ? Style::red
                   : is_odd ? Style::yellow
                            : Style::none));
  }
  return section;
}

TopSection nodes_section(const TopPage& page, const ClusterView& cluster, double now) {
  TopSection section;
  const double age = cluster.is_this_one ? 0 : std::max(0.0, now - cluster.at);
  section.heading = fmt::format("nodes ({}), up {}", cluster.nodes.size(),
                                format_duration(cluster.up_s + std::max(0.0, now - cluster.at)));
  for (const NodeView& node : cluster.nodes) {
    const std::string heard = node.is_away      ? "AWAY"
                              : node.is_lost    ? "LOST"
                              : node.is_leaving ? "LEAVING"
                                                : format_duration(node.heard_s + age);
    const bool is_bad = node.is_away || node.is_lost;
    std::string line = fmt::format("{:>4}  {}  {}", node.node, printable(node.host),
                                   page.paint("heard " + heard, is_bad ? Style::red : Style::dim));
    for (const std::string& process : node.processes) line += "  " + printable(process);
    section.rows.push_back(line);
  }
  return section;
}

std::vector<TopSection> sections_of(const TopPage& page, const TopData& top, double now) {
  std::vector<TopSection> sections;
  const auto& [cluster, run] = top.data;
  if (run != nullptr) {
    sections.push_back(cards_section(page, *run));
    if (!is_over(*run)) sections.push_back(links_section(page, top));
    if (top.flow != nullptr && !is_over(*run)) sections.push_back(waits_section(*top.flow));
  }
  if (cluster != nullptr && (run == nullptr || cluster->nodes.size() > 1))
    sections.push_back(nodes_section(page, *cluster, now));
  if (run != nullptr) sections.push_back(events_section(page, *run));
  std::erase_if(sections, [](const TopSection& section) { return section.rows.empty(); });
  return sections;
}

/// Returns how many lines each section gets of `rows`, heading included: in turns, the first ones
/// first. A section that would be a heading alone gets none.
std::vector<size_t> shares_of(const std::vector<TopSection>& sections, size_t rows) {
  std::vector<size_t> shares(sections.size(), 0);
  size_t left = rows;
  for (size_t i = 0; i < sections.size() && left >= 2; ++i) {
    shares[i] = 2;
    left -= 2;
  }
  for (bool has_given = true; left > 0 && has_given;) {
    has_given = false;
    for (size_t i = 0; i < sections.size() && left > 0; ++i) {
      if (shares[i] == 0 || shares[i] == sections[i].rows.size() + 1) continue;
      ++shares[i];
      --left;
      has_given = true;
    }
  }
  return shares;
}

void add_section(TextLines& lines, const TopPage& page, const TopSection& section, size_t share,
                 bool is_apart) {
  if (share == 0) return;
  if (is_apart) lines.emplace_back();
  const size_t shown = share - 1, all = section.rows.size();
  const bool is_cut = shown < all;
  std::string heading = section.heading;
  if (is_cut) heading = fmt::format("{}  ({} of {})", heading, shown, all);
  lines.push_back(page.paint(heading, Style::bold));
  lines.insert(lines.end(), section.rows.begin(),
               section.rows.begin() + static_cast<std::ptrdiff_t>(shown));
}

/// What is wrong with the data, how the run ended, and who waits for whom.
TextLines sentences_of(const TopPage& page, const TopData& top) {
  TextLines lines;
  auto add = [&](const std::string& text, Style style) {
    if (text.empty()) return;
    for (const std::string& line : word_lines(printable(text), page.columns, k_sentence_lines_max))
      lines.push_back(page.paint(line, style));
  };
  add(top.trouble, Style::red);
  const RunView* run = top.data.run.get();
  if (run != nullptr && !run->error.empty()) add("error: " + run->error, Style::red);
  if (top.flow != nullptr && (run == nullptr || !is_over(*run)))
    add(top.flow->sentence, top.flow->is_stalled ? Style::red : Style::green);
  return lines;
}

TextLines panel_of(const TopPage& page, const TopData& top, double now) {
  if (top.data.run != nullptr)
    return split_lines(render(console_of(*top.data.run, now),
                              static_cast<int>(std::min(page.columns, k_panel_cells_max)),
                              page.color));
  if (top.data.cluster == nullptr) return {"nothing is known yet"};
  const ClusterView& cluster = *top.data.cluster;
  return {page.paint(fmt::format("head {}", printable(cluster.version)), Style::bold) +
          fmt::format("  {} nodes, {} runs", cluster.nodes.size(), cluster.runs.size())};
}

}  // namespace

std::vector<std::string> top_picture(const TopData& top, double now, const TopSize& size) {
  const TopPage page{std::max(k_top_columns_min, size.columns), size.color};
  TextLines lines = panel_of(page, top, now);
  const TextLines sentences = sentences_of(page, top);
  const std::vector<TopSection> sections = sections_of(page, top, now);
  size_t wanted = 0;  // by the sections, with a blank line each
  for (const TopSection& section : sections) wanted += section.rows.size() + 2;
  const size_t rows = size.rows > 0 ? size.rows : lines.size() + sentences.size() + 1 + wanted;
  // TOP-1: the panel gives way, from its end; a third is for the sections.
  const size_t taken = sentences.size() + std::min(wanted, rows / 3);
  lines.resize(std::min(lines.size(), rows - std::min(rows, taken)));
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.size() + sentences.size() < rows && !sentences.empty()) lines.emplace_back();
  lines.insert(lines.end(), sentences.begin(), sentences.end());
  const size_t left = rows - std::min(rows, lines.size());
  const bool is_apart = wanted <= left;
  const std::vector<size_t> shares = shares_of(sections, left);
  for (size_t i = 0; i < sections.size(); ++i)
    add_section(lines, page, sections[i], shares[i], is_apart);
  if (lines.size() > rows) lines.resize(rows);
  for (std::string& line : lines) line = fit(line, size.columns);
  return lines;
}

}  // namespace cohort::observe
