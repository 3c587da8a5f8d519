/// render(): the live panel, top to bottom: title and progress, held-out success against the
/// references, numbers of the last step, time per phase, memory per card, last event.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/observe/console.hpp"
#include "runtime/observe/progress.hpp"
#include "runtime/observe/terminal.hpp"

namespace cohort::observe {
namespace {

constexpr size_t k_columns_min = 20;
constexpr size_t k_columns_wide = 60;  // below it labels go above bars and lists become columns

struct Panel {
  const ConsoleState& state;
  size_t columns;
  bool color;
  std::string out;

  bool is_wide() const { return columns >= k_columns_wide; }
  std::string paint(std::string_view text, Style style) const { return styled(text, style, color); }
  /// Returns a bar whose filled part is in `style` and whose rest is dim.
  std::string painted_bar(double fraction, size_t cells, Style style) const {
    std::string whole = bar(fraction, cells);
    size_t filled = std::min(whole.find("░"), whole.size());
    return paint(whole.substr(0, filled), style) + paint(whole.substr(filled), Style::dim);
  }
  void line(std::string_view text) {
    out += fit(text, columns);
    out += '\n';
  }
  void blank() { out += '\n'; }
};

/// Returns left and right text on one line with the gap between them, or nothing if they do not
/// fit.
std::optional<std::string> two_sided(std::string_view left, std::string_view right,
                                     size_t columns) {
  size_t used = cell_count(left) + cell_count(right);
  if (used + 2 > columns) return std::nullopt;
  return std::string(left) + std::string(columns - used, ' ') + std::string(right);
}

/// Returns a running time in whole seconds: tenths would only flicker.
std::string clock_text(double seconds) {
  return seconds < 59.5 ? fmt::format("{:.0f} s", std::max(0.0, seconds))
                        : format_duration(seconds);
}

void add_title(Panel& panel) {
  const ConsoleState& state = panel.state;
  std::string left = panel.paint(printable(state.run_name), Style::bold);
  std::string doing = printable(state.stage);
  if (!state.phase.empty()) doing += (doing.empty() ? "" : " · ") + printable(state.phase);
  if (state.is_stopping) doing = "stopping after this step";
  if (!doing.empty())
    left += "  " + panel.paint(doing, state.is_stopping ? Style::yellow : Style::cyan);
  std::string time = clock_text(state.elapsed_seconds) + " elapsed";
  if (state.eta_seconds) time += ", ETA " + clock_text(*state.eta_seconds);
  if (auto both = two_sided(left, panel.paint(time, Style::dim), panel.columns)) {
    panel.line(*both);
  } else {
    panel.line(left);
    panel.line(panel.paint(time, Style::dim));
  }
}

void add_progress(Panel& panel) {
  const ConsoleState& state = panel.state;
  bool in_stage = state.stage_done >= 0;
  double steps = static_cast<double>(std::max<uint64_t>(1, state.total_steps));
  double done = in_stage ? state.stage_done : static_cast<double>(state.step) / steps;
  if (!in_stage && state.total_steps == 0) done = 0;  // no end
  std::string head = in_stage ? "" : fmt::format("step {} ", step_of(state));
  std::string tail = fmt::format(" {:>4.0f}%", std::clamp(done, 0.0, 1.0) * 100);
  size_t fixed = cell_count(head) + cell_count(tail);
  size_t cells = panel.columns > fixed + 4 ? panel.columns - fixed : 4;
  panel.line(head + panel.painted_bar(done, cells, Style::green) + tail);
}

/// Adds one bar of held-out success; what = "sampled" or "greedy".
void add_success_bar(Panel& panel, std::string_view what, const std::vector<double>& values,
                     Style style, size_t label_cells, size_t bar_cells) {
  if (values.empty()) return;
  double now = values.back();
  std::string number = fmt::format("{:>6}", format_percent(now));
  std::string change;
  if (values.size() > 1) change = fmt::format(" {:+.1f}", (now - values.front()) * 100);
  std::string line = pad_right(what, label_cells);
  line += panel.painted_bar(now, bar_cells, style) + panel.paint(number, Style::bold);
  line += panel.paint(change, Style::dim);
  panel.line(line);
}

/// Returns the row of "▲" below the bars, one per reference.
std::string reference_ticks(const std::vector<ReferenceLine>& references, size_t bar_cells) {
  std::vector<bool> is_tick(bar_cells, false);
  for (const ReferenceLine& reference : references) {
    double cell =
        std::floor(std::clamp(reference.value, 0.0, 1.0) * static_cast<double>(bar_cells));
    is_tick[std::min(bar_cells - 1, static_cast<size_t>(cell))] = true;
  }
  std::string out;
  for (bool tick : is_tick) out += tick ? "▲" : " ";
  return out;
}

/// Returns the items on lines of at most `columns` cells, two apart; a longer one stands alone.
std::vector<std::string> wrapped(const std::vector<std::string>& items, size_t columns) {
  std::vector<std::string> lines;
  for (const std::string& item : items) {
    if (lines.empty() || cell_count(lines.back()) + 2 + cell_count(item) > columns)
      lines.push_back(item);
    else
      lines.back() += "  " + item;
  }
  return lines;
}

void add_references(Panel& panel, size_t label_cells, size_t bar_cells) {
  auto references = panel.state.references;
  if (references.empty()) return;
  std::ranges::stable_sort(references, {}, &ReferenceLine::value);
  std::string indent(label_cells, ' ');
  panel.line(indent + panel.paint(reference_ticks(references, bar_cells), Style::dim));
  std::vector<std::string> items;
  for (const ReferenceLine& reference : references)
    items.push_back(fmt::format("▲ {} {}", reference.name, format_percent(reference.value)));
  for (const std::string& text : wrapped(items, panel.columns - label_cells))
    panel.line(indent + panel.paint(text, Style::dim));
}

void add_success(Panel& panel) {
  const ConsoleState& state = panel.state;
  if (state.success_sampled.empty() && state.success_greedy.empty() && state.references.empty())
    return;
  panel.blank();
  std::string head = "held-out success";
  if (state.success_sampled.empty() && state.success_greedy.empty())
    head += "  not measured yet";
  else
    head += fmt::format("  step {}", state.success_step);
  panel.line(panel.paint(head, Style::dim));
  size_t label_cells = panel.is_wide() ? 10 : 8;
  constexpr size_t k_numbers = 13;  // "100.0% +100.0"
  size_t bar_cells =
      panel.columns > label_cells + k_numbers + 4 ? panel.columns - label_cells - k_numbers : 4;
  add_success_bar(panel, "sampled", state.success_sampled, Style::cyan, label_cells, bar_cells);
  add_success_bar(panel, "greedy", state.success_greedy, Style::yellow, label_cells, bar_cells);
  add_references(panel, label_cells, bar_cells);
}

void add_numbers(Panel& panel) {
  const ConsoleState& state = panel.state;
  std::vector<std::pair<std::string_view, std::string>> cells;
  auto add = [&](std::string_view label, const std::optional<double>& value, auto format) {
    if (value) cells.emplace_back(label, format(*value));
  };
  auto number = [](double value) { return format_number(value); };
  add("loss", state.loss, number);
  add("held-out loss", state.held_out_loss, number);
  add("reward", state.reward_mean, number);
  add("entropy", state.entropy, number);
  add("KL", state.kl, number);
  add("clip", state.clip_fraction, format_percent);
  add("grad norm", state.grad_norm, number);
  add("lr", state.learning_rate, [](double value) { return format_number(value, 3); });
  add("gen tok/s", state.generate_tokens_per_s, format_count);
  add("train tok/s", state.train_tokens_per_s, format_count);
  if (state.trajectories > 0)
    cells.emplace_back("trajectories", format_count(static_cast<double>(state.trajectories)));
  if (cells.empty()) return;
  panel.blank();
  constexpr size_t k_cell = 20;  // "trajectories 12.3k" and a gap
  size_t per_line = std::max<size_t>(1, panel.columns / k_cell);
  size_t width = panel.columns / per_line;
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    std::string text = panel.paint(cells[i].first, Style::dim) + " " + cells[i].second;
    bool is_last = (i + 1) % per_line == 0 || i + 1 == cells.size();
    line += is_last ? text : pad_right(text, width);
    if (is_last) {
      panel.line(line);
      line.clear();
    }
  }
}

constexpr std::array<Style, 6> k_phase_styles = {Style::blue,    Style::green, Style::yellow,
                                                 Style::magenta, Style::cyan,  Style::red};
constexpr std::array<std::string_view, 6> k_phase_glyphs = {"█", "▒", "▓", "░", "▚", "▞"};

/// Returns the cells of each phase: at least one for a phase above 2 %, `cells` in all.
std::vector<size_t> share_cells(const std::vector<PhaseTime>& phases, double total, size_t cells) {
  std::vector<size_t> out;
  double sum = 0;
  size_t used = 0;
  for (const PhaseTime& phase : phases) {
    sum += std::max(0.0, phase.seconds);
    auto end = static_cast<size_t>(std::llround(sum / total * static_cast<double>(cells)));
    if (end == used && phase.seconds > 0.02 * total) ++end;
    end = std::clamp(end, used, cells);
    out.push_back(end - used);
    used = end;
  }
  return out;
}

void add_phases(Panel& panel) {
  const auto& phases = panel.state.phases;
  double total = 0;
  for (const PhaseTime& phase : phases) total += std::max(0.0, phase.seconds);
  if (total <= 0) return;
  panel.blank();
  std::string head = "step " + format_duration(panel.state.step_seconds.value_or(total));
  size_t label_cells = panel.is_wide() ? 14 : 0;
  if (!panel.is_wide()) panel.line(panel.paint(head, Style::dim));
  auto cells = share_cells(phases, total, panel.columns - label_cells);
  std::string stack = label_cells > 0 ? panel.paint(pad_right(head, label_cells), Style::dim) : "";
  std::vector<std::string> legend;
  for (size_t i = 0; i < phases.size(); ++i) {
    size_t kind = i % k_phase_styles.size();
    std::string_view glyph = panel.color ? "█" : k_phase_glyphs[kind];
    std::string block;
    for (size_t cell = 0; cell < cells[i]; ++cell) block += glyph;
    stack += panel.paint(block, k_phase_styles[kind]);
    legend.push_back(panel.paint(glyph, k_phase_styles[kind]) + " " + printable(phases[i].name) +
                     " " + format_duration(phases[i].seconds));
  }
  panel.line(stack);
  for (const std::string& text : wrapped(legend, panel.columns - label_cells))
    panel.line(std::string(label_cells, ' ') + text);
}

void add_cards(Panel& panel) {
  const auto& cards = panel.state.cards;
  if (cards.empty()) return;
  panel.blank();
  auto name_of = [&](const CardMemory& card) {
    return printable(panel.is_wide() ? card.name + " " + card.role : card.name);
  };
  size_t name_cells = 0;
  for (const CardMemory& card : cards) name_cells = std::max(name_cells, cell_count(name_of(card)));
  name_cells = std::min(name_cells, panel.columns / 3) + 2;
  for (const CardMemory& card : cards) {
    double budget = static_cast<double>(std::max<uint64_t>(1, card.budget_bytes));
    double used = static_cast<double>(card.used_bytes) / budget;
    std::string numbers =
        fmt::format(" {} / {}", format_bytes(card.used_bytes), format_bytes(card.budget_bytes));
    if (card.peak_bytes > 0 && panel.columns >= 100)
      numbers += fmt::format(", peak {}", format_bytes(card.peak_bytes));
    constexpr size_t k_numbers = 22;            // " 1023 MiB / 1023 MiB"
    constexpr size_t k_numbers_with_peak = 38;  // and ", peak 1023 MiB"
    size_t number_cells = panel.columns >= 100 ? k_numbers_with_peak : k_numbers;
    size_t bar_cells = panel.columns > name_cells + number_cells + 4
                           ? panel.columns - name_cells - number_cells
                           : 0;
    std::string line = pad_right(name_of(card), name_cells);
    line += panel.painted_bar(used, bar_cells, used > 0.9 ? Style::red : Style::blue);
    panel.line(line + numbers);
  }
}

void add_event(Panel& panel) {
  const ConsoleState& state = panel.state;
  if (state.event.empty()) return;
  panel.blank();
  Style style = state.event_level == EventLevel::error     ? Style::red
                : state.event_level == EventLevel::warning ? Style::yellow
                                                           : Style::dim;
  panel.line(panel.paint(event_text(state.event_level, state.event), style));
}

}  // namespace

std::string render(const ConsoleState& state, int columns, bool color) {
  Panel panel{state, std::max(k_columns_min, static_cast<size_t>(std::max(0, columns))), color, {}};
  add_title(panel);
  add_progress(panel);
  add_success(panel);
  add_numbers(panel);
  add_phases(panel);
  add_cards(panel);
  add_event(panel);
  return panel.out;
}

}  // namespace cohort::observe
