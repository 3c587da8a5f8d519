#pragma once
/// A made-up run on two nodes for the tests of the dashboard, in the middle of its 40 steps.
#include "runtime/observe/board.hpp"
#include "tests/support/observe_sample.hpp"

namespace cohort::observe::sample {

inline ClusterView cluster() {
  ClusterView view;
  view.version = "0.1.0";
  view.up_s = 61.5;
  view.at = 1000;
  view.runs = {"20261122-101500"};
  view.nodes = {{0,
                 "npu-a",
                 "10.0.0.1",
                 "0.1.0",
                 4711,
                 0,
                 0.2,
                 false,
                 {"20261122-101500: cards [0]: actor_train"},
                 0},
                {1,
                 "npu-b",
                 "10.0.0.2",
                 "0.1.0",
                 815,
                 8,
                 3.25,
                 true,
                 {"20261122-101500: cards [1]: actor_infer"},
                 2}};
  return view;
}

/// Publishes a run that has finished `steps` of its 40 steps, one a second from 900 on.
inline void publish_run(Board& board, size_t steps) {
  RunView run;
  run.name = "frozen_lake";
  run.total_steps = 40;
  run.started = 900;
  run.cards = {{0, "actor_train", 0, 0, 4 << 20}, {1, "actor_infer", 0, 0, 64 << 20}};
  board.begin_run(std::move(run));
  board.set_folder("20261122-101500", "/out/frozen_lake/20261122-101500", references(), {});
  board.set_stage("step", "generate", -1);
  board.set_bytes(std::vector<std::pair<uint32_t, uint64_t>>{{0, 1613824}, {1, 3549440}});
  for (MetricRow row : metrics(steps)) {
    row.set("tokens", 2048);
    if (row.step() % 10 == 0) {
      row.set("val/success", 0.5 + static_cast<double>(row.step()) / 100);
      row.set("val/success_greedy", 0.75);
    }
    board.add_row(row, row.step() * 512, 900 + static_cast<double>(row.step()));
  }
  if (steps == 0) return;
  board.add_event({12.5, 7, "lost", "process 1 (cards [1]: actor_infer) was killed by signal 9"});
  board.set_lost(std::vector<uint32_t>{1}, true);
  board.add_event({13.25, 7, "restart", "actor_infer (card 1) is there again, without weights"});
  board.set_lost(std::vector<uint32_t>{1}, false);
  board.add_event({20, 12, "notice", "reward: <b>answer</b> \"12\" has no marker"});
}

}  // namespace cohort::observe::sample
