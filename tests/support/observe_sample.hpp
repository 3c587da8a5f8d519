#pragma once
/// A made-up run for the tests of runtime/observe: 40 steps on two cards, with texts that try to
/// break out of HTML.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "runtime/base/rng.hpp"
#include "runtime/observe/console.hpp"
#include "runtime/observe/report_data.hpp"

namespace cohort::observe::sample {

inline std::vector<ReferenceLine> references() {
  return {{"random valid", 0.21}, {"walk straight", 0.755}, {"shortest path", 0.997}};
}

inline std::vector<MetricRow> metrics(size_t steps) {
  Rng rng(7);
  std::vector<MetricRow> rows;
  for (size_t step = 1; step <= steps; ++step) {
    double done = static_cast<double>(step) / static_cast<double>(steps);
    auto noise = [&](double size) { return (rng.uniform() - 0.5) * size; };
    MetricRow row(step);
    row.set("param_hash", fmt::format("{:016x}", rng.next_u64()));
    row.set("loss", -0.02 * done + noise(0.01));
    row.set("reward/mean", 0.45 + 0.3 * std::sqrt(done) + noise(0.05));
    row.set("actor/entropy", 1.1 - 0.7 * done + noise(0.04));
    row.set("actor/approx_kl", 0.002 + noise(0.002));
    row.set("actor/clipfrac", 0.012 + noise(0.01));
    row.set("actor/grad_norm", 0.6 + noise(0.3));
    row.set("actor/lr", 1e-3 * std::min(1.0, static_cast<double>(step) / 5));
    row.set("tokens_per_s/generate", 81000 + noise(8000));
    row.set("tokens_per_s/train", 93000 + noise(6000));
    row.set("tokens_per_s", 41000 + noise(3000));
    row.set("mixed_groups", 0.6 - 0.4 * done + noise(0.1));
    row.set("env/FrozenLake/action_is_valid", 0.98 + noise(0.02));
    row.set("orchestrator_share", 0.011 + noise(0.004));
    row.set("time/generate_s", 0.62 + noise(0.1));
    row.set("time/update_s", 0.41 + noise(0.06));
    row.set("time/publish_s", 0.02);
    if (step % 10 == 0) row.set("time/evaluate_s", 0.55);
    row.set("time/step_s", 1.1);
    rows.push_back(std::move(row));
  }
  return rows;
}

inline TurnView turn(std::string observation, std::string answer, double logp, float reward) {
  TurnView view;
  view.observation = std::move(observation);
  view.answer = answer;
  view.reward = reward;
  view.tokens = {{"<answer>", -0.01}, {answer, logp}, {"</answer>", -0.001}};
  return view;
}

inline std::vector<TrajectoryView> trajectories() {
  TrajectoryView won{"step 40, group 3, trajectory 1", "held-out", 1000031, 1, "goal", {}};
  std::string intro = "You walk on a frozen lake. Reach G & avoid O.\nTurn 1:\n";
  won.turns = {turn(intro + "P _ _ _\n_ O _ O\n_ _ _ O\nO _ _ G\n", "Down", -0.08, 0),
               turn("_ _ _ _\nP O _ O\n_ _ _ O\nO _ _ G\n", "Down", -0.9, 0),
               turn("_ _ _ _\n_ O _ O\nP _ _ O\nO _ _ G\n", "Right", -0.3, 0),
               turn("_ _ _ _\n_ O _ O\n_ P _ O\nO _ _ G\n", "Down", -2.2, 0),
               turn("_ _ _ _\n_ O _ O\n_ _ _ O\nO P _ G\n", "Right", -0.02, 0),
               turn("_ _ _ _\n_ O _ O\n_ _ _ O\nO _ P G\n", "Right", -0.01, 1)};
  TrajectoryView lost{"step 40, group 5, trajectory 0", "train", 88, -0.01, "hole", {}};
  lost.turns = {turn("P O _\n_ _ _\n_ _ G\n", "Up</script><script>alert(1)</script>", -4.1, -0.01F),
                turn("P O _\n_ _ _\n_ _ G\n", "Right", -0.7, 0)};
  lost.turns[0].is_valid = false;
  lost.turns[1].is_effective = true;
  TrajectoryView text{"step 12, group 0, trajectory 7", "train", 12, 0, "length", {}};
  text.turns = {turn("What is 12 + 7? \"quoted\" 'text' \x01\xff", "20", -1.4, 0)};
  return {won, lost, text};
}

/// Adds what placement and the roles did in `step`, which begins at `start_s`.
inline void add_step(ReportData& data, uint64_t step, double start_s) {
  constexpr uint64_t k_params = 403712;
  constexpr uint64_t k_cache = 3 << 20;
  auto move = [&](uint32_t card, std::string phase, std::string object, std::string from,
                  std::string to, uint64_t bytes, double at_s) {
    data.transitions.push_back({step, card, std::move(phase), std::move(object), std::move(from),
                                std::move(to), bytes, start_s + at_s, start_s + at_s + 0.0012});
  };
  move(1, "generate", "kv_cache", "absent", "card", k_cache, 0.001);
  data.compute.push_back({step, 1, "generate", start_s + 0.003, start_s + 0.62});
  move(1, "update", "kv_cache", "card", "absent", k_cache, 0.621);
  move(0, "update", "grads", "absent", "card", k_params, 0.622);
  move(0, "update", "optimizer", "host", "card", 2 * k_params, 0.624);
  data.compute.push_back({step, 0, "update", start_s + 0.626, start_s + 1.03});
  move(0, "update", "optimizer", "card", "host", 2 * k_params, 1.031);
  move(0, "update", "grads", "card", "absent", k_params, 1.033);
  data.compute.push_back({step, 0, "publish", start_s + 1.035, start_s + 1.06});
  data.compute.push_back({step, 1, "publish", start_s + 1.035, start_s + 1.06});
}

inline ReportData report() {
  ReportData data;
  data.title = "frozen_lake <seed 1>";
  data.status = "finished";
  data.summary = "GRPO on 4x4 FrozenLake maps after a supervised warm start on scripted play.";
  data.facts = {{"config", "configs/frozen_lake.yaml"},
                {"seed", "1"},
                {"config hash", "9f3a77c2e01b54d8"},
                {"commit", "4f8b059"},
                {"machine", "2 cores, AMX, 15 GiB"},
                {"duration", "3m 41s"},
                {"parameters", "100,928"},
                {"run", "runs/frozen_lake/20261121-041500"}};
  data.headlines = {{"generation", "81.2k tok/s"},
                    {"training", "92.9k tok/s"},
                    {"trajectories", "20.5k"},
                    {"step", "1.09 s"},
                    {"orchestrator", "1.1%"}};
  data.references = references();
  data.evaluation_maps = 256;
  data.evaluations = {{0, 0, 0.461, 0.742},
                      {10, 5120, 0.711, 0.766},
                      {20, 10240, 0.742, 0.77},
                      {30, 15360, 0.773, 0.785},
                      {40, 20480, 0.801, 0.809}};
  auto rows = metrics(40);
  data.train_reward = series_of(rows, "reward/mean", "training reward (mean)");
  data.charts = standard_charts(rows);
  data.step_times = step_times_of(rows);
  data.cards = {{0, "actor_train", 4 << 20}, {1, "actor_infer", 64 << 20}};
  data.transitions = {{0, 0, "init", "train_params", "absent", "card", 403712, 0.1, 0.101},
                      {0, 1, "init", "infer_params", "absent", "card", 403712, 0.2, 0.201}};
  for (uint64_t step = 1; step <= 40; ++step)
    add_step(data, step, 60 + 1.09 * static_cast<double>(step));
  data.trajectories = trajectories();
  data.events = {
      {61.2, 1, "warning", "init_kl_coef > 0 loads a reference model <b>for a chart</b>"},
      {92.5, 28, "retry", "reward: trajectory 28/12/3 scored again after timeout"}};
  data.config_text =
      "exp_name: frozen_lake\nseed: 1\nactor_train:\n  learning_rate: 1e-3 # <tag> & co\n";
  return data;
}

inline ConsoleState console_state() {
  ConsoleState state;
  state.run_name = "frozen_lake";
  state.stage = "step 13";
  state.phase = "generate";
  state.step = 12;
  state.total_steps = 40;
  state.success_sampled = {0.461, 0.719};
  state.success_greedy = {0.742, 0.758};
  state.success_step = 10;
  state.references = references();
  state.reward_mean = 0.712;
  state.entropy = 0.4113;
  state.kl = 0.00312;
  state.clip_fraction = 0.012;
  state.grad_norm = 0.532;
  state.learning_rate = 1e-3;
  state.generate_tokens_per_s = 81200;
  state.train_tokens_per_s = 92900;
  state.step_seconds = 1.09;
  state.phases = {{"generate", 0.62}, {"update", 0.41}, {"publish", 0.02}, {"other", 0.04}};
  state.cards = {{"card 0", "actor_train", 1613824, 1700000, 4 << 20},
                 {"card 1", "actor_infer", 3549440, 3600000, 64 << 20}};
  state.trajectories = 6144;
  state.elapsed_seconds = 74;
  state.eta_seconds = 31;
  state.event_level = EventLevel::warning;
  state.event = "reward: trajectory 11/12/3 scored again after timeout";
  return state;
}

}  // namespace cohort::observe::sample
