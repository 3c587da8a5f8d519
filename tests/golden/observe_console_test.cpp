#include <gtest/gtest.h>

#include "runtime/observe/console.hpp"
#include "tests/support/observe_files.hpp"
#include "tests/support/observe_sample.hpp"

namespace cohort::observe {
namespace {

TEST(ConsoleGolden, PanelAt40And80And120Columns) {
  ConsoleState state = sample::console_state();
  for (int columns : {40, 80, 120})
    sample::expect_golden(fmt::format("console_{}.txt", columns), render(state, columns, false));
  sample::expect_golden("console_80_color.txt", render(state, 80, true));
}

TEST(ConsoleGolden, WarmStartAndPlainLines) {
  ConsoleState warm;
  warm.run_name = "frozen_lake";
  warm.stage = "warm start";
  warm.stage_done = 0.42;
  warm.total_steps = 40;
  warm.references = sample::references();
  warm.elapsed_seconds = 12;
  sample::expect_golden("console_warm_start.txt", render(warm, 80, false));
  ConsoleState state = sample::console_state();
  std::string plain = plain_header(state) + "\n" + plain_line(state) + "\n";
  state.success_step = state.step;
  sample::expect_golden("console_plain.txt", plain + plain_line(state) + "\n");
}

}  // namespace
}  // namespace cohort::observe
