#include "runtime/observe/console_row.hpp"

#include "runtime/observe/report_data.hpp"

namespace cohort::observe {

void show_row(ConsoleState& state, const MetricRow& row) {
  state.step = row.step();
  if (auto sampled = row.number("val/success")) {
    state.success_sampled.push_back(*sampled);
    state.success_greedy.push_back(row.number("val/success_greedy").value_or(0));
    state.success_step = row.step();
  }
  state.held_out_loss = row.number("val/loss");
  state.is_supervised =
      state.is_supervised || state.held_out_loss || row.number("time/rows_s").has_value();
  if (state.is_supervised) state.loss = row.number("loss");
  state.reward_mean = row.number("reward/mean");
  if (state.reward_mean) state.reward_history.push_back(*state.reward_mean);
  state.entropy = row.number("actor/entropy");
  state.kl = row.number("actor/approxkl");
  state.clip_fraction = row.number("actor/clipfrac");
  state.grad_norm = row.number("actor/grad_norm");
  state.learning_rate = row.number("actor/lr");
  state.generate_tokens_per_s = row.number("generate_tokens_per_s");
  state.train_tokens_per_s = row.number("train_tokens_per_s");
  state.step_seconds = row.number("time/step_s");
  state.phases.clear();
  for (const StepTimes& times : step_times_of({&row, 1}))
    for (const auto& [name, seconds] : times.phases) state.phases.push_back({name, seconds});
}

}  // namespace cohort::observe
