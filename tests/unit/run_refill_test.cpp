// Groups that carry no signal, and those that take their places: what the run does when.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/run_script.hpp"

namespace cohort::tests {
namespace {

using namespace plan::run;

RunOptions sifted(uint32_t batches_max) {
  RunOptions options = RunScript::options(1);
  options.gen_batches_max = batches_max;
  return options;
}

Lines since(const RunScript& script, size_t before) {
  return {script.lines().begin() + static_cast<ptrdiff_t>(before), script.lines().end()};
}

size_t lines_like(const RunScript& script, const std::string& line) {
  return static_cast<size_t>(std::ranges::count(script.lines(), line));
}

struct Refilled : RunScript {
  explicit Refilled(RunOptions with) : RunScript(std::move(with)) {
    tell(Started{});
    EXPECT_TRUE(answer_until_state("stepping, generating")) << state();
  }
};

constexpr RoundKey k_first{TrajectoryKind::train, 1};

TEST(RunRefill, AGroupWithoutASignalIsReplacedWhileOthersPlay) {
  Refilled script(sifted(3));
  EXPECT_TRUE(contains(script.lines(), "sift train 1, 0 known"));
  const size_t before = script.lines().size();
  script.tell(Sifted{k_first, {1}});
  EXPECT_EQ(script.state(), "stepping, generating");
  ASSERT_TRUE(script.answer_until([&] { return script.run().front() == StepState::closing; }) ||
              script.end() != nullptr);
  const Lines lines = since(script, before);
  EXPECT_TRUE(are({lines.begin(), lines.begin() + 6},
                  {"ask tasks of train 1 for groups 2", "sift train 1, 1 known",
                   "open train 1 for groups 2 too", "lease 3 to 0: train 1, groups 2, version 0",
                   "collect train 1", "train 1 is over"}))
      << fmt::format("{}", fmt::join(lines, "\n"));
}

TEST(RunRefill, WhatIsLeftOutLastIsReplacedToo) {
  Refilled script(sifted(3));
  ASSERT_TRUE(script.answer_until_state("stepping, collecting"));
  script.take<Collect>();
  script.tell(Collected{k_first, 0, {0, 1}});
  EXPECT_EQ(script.state(), "stepping, generating");
  EXPECT_EQ(script.lines().back(), "ask tasks of train 1 for groups 2 3");
  script.tell(Sifted{k_first, {0, 1}});  // late: it is known
  ASSERT_TRUE(script.answer_until_state("stepping, collecting"));
  EXPECT_EQ(lines_like(script, "collect train 1"), 2U);
  EXPECT_EQ(lines_like(script, "ask tasks of train 1 for groups 2 3"), 1U);
  while (script.answer()) {
  }
  EXPECT_EQ(lines_like(script, "end: finished after 1 steps"), 1U);
}

TEST(RunRefill, WithoutMoreBatchesAStepTrainsOnWhatThereIs) {
  Refilled script(sifted(2));
  ASSERT_TRUE(script.answer_until_state("stepping, collecting"));
  script.take<Collect>();
  script.tell(Collected{k_first, 0, {0, 1}});
  ASSERT_TRUE(script.answer_until_state("stepping, collecting"));
  script.take<Collect>();
  script.tell(Collected{k_first, 0, {0, 1, 2}});
  EXPECT_TRUE(contains(script.lines(), "note refill"));
  EXPECT_TRUE(contains(script.lines(), "train 1 is over"));
  while (script.answer()) {
  }
  EXPECT_EQ(lines_like(script, "end: finished after 1 steps"), 1U);
}

TEST(RunRefill, AStepThatFiltersAloneAsksForNobody) {
  Refilled script(sifted(1));
  EXPECT_FALSE(contains(script.lines(), "sift*"));
  ASSERT_TRUE(script.answer_until_state("stepping, collecting"));
  script.take<Collect>();
  script.tell(Collected{k_first, 0, {1}});
  EXPECT_TRUE(contains(script.lines(), "note refill"));
  EXPECT_TRUE(contains(script.lines(), "train 1 is over"));
}

}  // namespace
}  // namespace cohort::tests
