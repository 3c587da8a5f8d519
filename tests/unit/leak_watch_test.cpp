#include "runtime/plan/place/leak_watch.hpp"

#include <gtest/gtest.h>

namespace cohort::plan::leak_watch_test {
namespace {

constexpr uint64_t k_gib = uint64_t{1} << 30;

TEST(LeakWatch, ACardThatHoldsWhatTheLedgerSaysIsQuiet) {
  LeakWatch watch;
  EXPECT_FALSE(watch.card({2}, PhaseKind::generate, 100, 100));
  EXPECT_FALSE(watch.card({2}, PhaseKind::generate, 100, 0));
}

TEST(LeakWatch, BytesOfNoObjectAreNamedWithCardAndPhase) {
  auto alarm = LeakWatch{}.card({2}, PhaseKind::generate, 1000, 5096);
  ASSERT_TRUE(alarm);
  EXPECT_EQ(*alarm,
            "LEAK-1: card 2 in phase generate: 4,096 bytes belong to no object (allocated 5,096, "
            "objects 1,000)");
}

TEST(LeakWatch, AProcessThatReturnsToItsLevelIsQuiet) {
  LeakWatch watch;
  for (int step = 0; step < 300; ++step)
    EXPECT_FALSE(watch.process("process 1", PhaseKind::update, k_gib + (step % 7) * 1024));
}

// Phases have levels of their own: what a card holds in update it does not hold in generate.
TEST(LeakWatch, LevelsBelongToPhases) {
  LeakWatch watch;
  for (int step = 0; step < 10; ++step) {
    EXPECT_FALSE(watch.process("process 1", PhaseKind::generate, k_gib));
    EXPECT_FALSE(watch.process("process 1", PhaseKind::update, 4 * k_gib));
  }
}

// Host buffers, cards' pages and heaps fill in the first turns: as read in a run of four cards.
TEST(LeakWatch, WhatTheFirstTurnsFillIsNoLeak) {
  LeakWatch watch;
  for (uint64_t mib : {73, 163, 209, 219, 216, 222, 210, 226})
    EXPECT_FALSE(watch.process("process 1", PhaseKind::update, mib << 20)) << mib;
}

// A heap keeps what the longest sequence so far took: it rises by jumps and stays.
TEST(LeakWatch, JumpsToANewLevelAreNoLeak) {
  LeakWatch watch;
  for (int step = 0; step < 60; ++step) {
    const uint64_t jumps = step < 5 ? 0 : step < 18 ? 1 : step < 40 ? 2 : 3;
    EXPECT_FALSE(watch.process("process 1", PhaseKind::publish, 2 * k_gib + jumps * (k_gib / 4)));
  }
}

TEST(LeakWatch, AFastLeakIsToldWithinSixteenTurns) {
  LeakWatch watch;
  std::string told;
  for (uint64_t step = 0; step < 16 && told.empty(); ++step)
    told = watch.process("process 1", PhaseKind::update, k_gib + step * (k_gib / 8)).value_or("");
  EXPECT_EQ(told,
            "LEAK-2: process 1 in phase update holds 3,087,007,744 bytes and has risen for 12 "
            "turns; its level was 1,476,395,008");
}

// What a turn takes beside the leak goes up and down by more than the leak.
TEST(LeakWatch, ALeakUnderNoiseIsTold) {
  LeakWatch watch;
  int alarms = 0;
  for (uint64_t step = 0; step < 100; ++step)
    alarms += watch.process("process 1", PhaseKind::update,
                            k_gib + step * (k_gib / 64) + step * 7 % 4 * (k_gib / 16))
                  ? 1
                  : 0;
  EXPECT_GE(alarms, 3);
}

TEST(LeakWatch, ASlowLeakIsToldOncePerRise) {
  LeakWatch watch;
  int alarms = 0;
  for (uint64_t step = 0; step < 300; ++step)
    alarms += watch.process("process 1", PhaseKind::update, k_gib + step * (k_gib / 300)) ? 1 : 0;
  EXPECT_GE(alarms, 5);
  EXPECT_LE(alarms, 14);
}

}  // namespace
}  // namespace cohort::plan::leak_watch_test
