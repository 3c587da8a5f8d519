/// plain_header() and plain_line(): one aligned line per step, for log files and pipes. ASCII only.
#include <fmt/format.h>

#include <span>
#include <vector>

#include "runtime/observe/console.hpp"
#include "runtime/observe/progress.hpp"

namespace cohort::observe {
namespace {

struct Column {
  std::string_view head;
  size_t width;
};
constexpr Column k_columns[] = {
    {"step", 9}, {"sampled", 7},   {"greedy", 6},       {"reward", 7},    {"entropy", 8}, {"KL", 8},
    {"clip", 6}, {"gen tok/s", 9}, {"train tok/s", 11}, {"step time", 9}, {"ETA", 7},
};

constexpr Column k_supervised_columns[] = {
    {"step", 9}, {"held-out", 9},     {"loss", 9},      {"grad norm", 9},
    {"lr", 9},   {"train tok/s", 11}, {"step time", 9}, {"ETA", 7},
};

std::span<const Column> columns_of(const ConsoleState& state) {
  if (state.is_supervised) return k_supervised_columns;
  return k_columns;
}

template <class Format>
std::string or_dash(const std::optional<double>& value, Format format) {
  return value ? format(*value) : "-";
}

}  // namespace

std::string plain_header(const ConsoleState& state) {
  std::string out;
  for (const Column& column : columns_of(state))
    out += fmt::format("{}{:>{}}", out.empty() ? "" : "  ", column.head, column.width);
  return out;
}

std::string plain_line(const ConsoleState& state) {
  auto number = [](double value) { return format_number(value); };
  bool is_evaluated = state.success_step == state.step;
  auto success = [&](const std::vector<double>& values) {
    return is_evaluated && !values.empty() ? format_percent(values.back()) : std::string("-");
  };
  std::vector<std::string> cells = {step_of(state)};
  if (state.is_supervised)
    cells.insert(cells.end(),
                 {or_dash(state.held_out_loss, number), or_dash(state.loss, number),
                  or_dash(state.grad_norm, number), or_dash(state.learning_rate, number)});
  else
    cells.insert(cells.end(),
                 {success(state.success_sampled), success(state.success_greedy),
                  or_dash(state.reward_mean, number), or_dash(state.entropy, number),
                  or_dash(state.kl, number), or_dash(state.clip_fraction, format_percent),
                  or_dash(state.generate_tokens_per_s, format_count)});
  cells.insert(cells.end(), {or_dash(state.train_tokens_per_s, format_count),
                             or_dash(state.step_seconds, format_duration),
                             or_dash(state.eta_seconds, format_duration)});
  const std::span<const Column> columns = columns_of(state);
  std::string out;
  for (size_t i = 0; i < cells.size(); ++i)
    out += fmt::format("{}{:>{}}", i == 0 ? "" : "  ", cells[i], columns[i].width);
  return out;
}

}  // namespace cohort::observe
