#include <gtest/gtest.h>

#include <sstream>

#include "runtime/observe/console.hpp"
#include "runtime/observe/terminal.hpp"
#include "tests/support/observe_sample.hpp"

namespace cohort::observe {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(ConsoleRender, NoLineIsWiderThanTheTerminal) {
  ConsoleState state = sample::console_state();
  state.run_name = std::string(300, 'n');
  state.event = std::string(300, 'e') + "\x1b[2J";
  state.total_steps = 1234567;
  for (int columns = 20; columns <= 200; ++columns) {
    for (bool color : {false, true}) {
      for (const std::string& line : lines_of(render(state, columns, color)))
        ASSERT_LE(cell_count(line), static_cast<size_t>(columns)) << columns << ": " << line;
    }
  }
}

TEST(ConsoleRender, ColorAddsOnlyStyles) {
  std::string text = render(sample::console_state(), 80, false);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(ConsoleRender, EmptyStateIsTwoLines) {
  EXPECT_EQ(lines_of(render(ConsoleState{}, 80, false)).size(), 2U);
}

TEST(ConsoleRender, NonsenseNumbersDoNotBreakIt) {
  ConsoleState state;
  state.step = 9;
  state.total_steps = 3;
  state.success_sampled = {-1, 7};
  state.phases = {{"generate", 0}, {"update", -1}};
  state.cards = {{"card 0", "", ~0ULL, 0, 0}};
  state.stage_done = 3;
  EXPECT_FALSE(render(state, -5, true).empty());
}

TEST(ConsolePlain, HeaderAndLineAreAligned) {
  ConsoleState state = sample::console_state();
  EXPECT_EQ(plain_header(state).size(), plain_line(state).size());
}

}  // namespace
}  // namespace cohort::observe
