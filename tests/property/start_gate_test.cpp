// START-1 and START-2: when a run starts with fewer nodes than it could have.
#include "runtime/plan/membership/start_gate.hpp"

#include <gtest/gtest.h>

#include "tests/support/plan_gen.hpp"

namespace cohort::plan::start_gate_test {
namespace {

/// Train cards on node 0, replicas on 1, 2 and on 3 with 4 together.
NodesWanted wanted(uint32_t least) {
  NodesWanted wanted;
  wanted.count = 5;
  wanted.least = least;
  wanted.required = {0};
  wanted.replicas = {{1}, {2}, {3, 4}};
  wanted.wait_s = 100;
  wanted.wait_more_s = 10;
  return wanted;
}

TEST(StartGate, AllNodesStartAtOnce) {
  for (uint32_t least : {2U, 5U}) {
    StartGate gate(wanted(least), 0);
    EXPECT_EQ(gate.judge({0, 1, 2, 3}, 1), StartGate::Verdict::wait);
    EXPECT_EQ(gate.judge({0, 1, 2, 3, 4, 77}, 2), StartGate::Verdict::start);
  }
}

TEST(StartGate, EnoughStartWhenNobodyElseHasComeForAWhile) {
  StartGate gate(wanted(2), 0);
  EXPECT_EQ(gate.judge({0}, 1), StartGate::Verdict::wait);
  EXPECT_EQ(gate.judge({0, 1}, 2), StartGate::Verdict::wait);
  EXPECT_EQ(gate.judge({0}, 8), StartGate::Verdict::wait)
      << "it went away again: the wait begins anew";
  EXPECT_EQ(gate.judge({0, 2}, 9), StartGate::Verdict::wait);
  EXPECT_EQ(gate.judge({0, 2}, 18.9), StartGate::Verdict::wait);
  EXPECT_EQ(gate.judge({0, 2}, 19), StartGate::Verdict::start);
  EXPECT_EQ(gate.missing(), (std::set<uint32_t>{1, 3, 4}));
}

TEST(StartGate, WhatIsMissingIsSaid) {
  struct Case {
    uint32_t least;
    std::set<uint32_t> joined;
    const char* text;
  };
  for (const Case& x :
       {Case{5, {0, 1, 2}, "3 of 5 nodes have joined; missing: RANK 3, 4"},
        Case{2,
             {1, 2},
             "2 of 5 nodes have joined; missing: RANK 0, 3, 4; RANK 0 cannot be done without: "
             "cards there are not the rollout's alone"},
        Case{2,
             {0, 3},
             "2 of 5 nodes have joined; missing: RANK 1, 2, 4; no replica of actor_infer has all "
             "of its nodes"},
        Case{3,
             {0, 1},
             "2 of 5 nodes have joined; missing: RANK 2, 3, 4; --nodes says that 3 are enough"}}) {
    StartGate gate(wanted(x.least), 0);
    EXPECT_EQ(gate.judge(x.joined, 100), StartGate::Verdict::wait);
    EXPECT_EQ(gate.judge(x.joined, 100.1), StartGate::Verdict::give_up);
    EXPECT_EQ(gate.text("RANK"), x.text);
  }
}

// Against the rule said in other words: who is there at the start suffices, and was for long
// enough.
TEST(StartGate, RandomJoinsNeverStartTooEarlyAndAlwaysEnd) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    const NodesWanted all = wanted(static_cast<uint32_t>(1 + rng.below(5)));
    StartGate gate(all, 0);
    std::set<uint32_t> joined;
    double now = 0, enough_since = -1;
    StartGate::Verdict verdict = StartGate::Verdict::wait;
    while (verdict == StartGate::Verdict::wait) {
      now += 0.5 + static_cast<double>(rng.below(3));
      const auto node = static_cast<uint32_t>(rng.below(8));
      if (rng.below(10) < 2) joined.insert(node);
      if (rng.below(10) == 0) joined.erase(node);
      verdict = gate.judge(joined, now);
      size_t there = 0;
      for (uint32_t i = 0; i < 5; ++i) there += joined.contains(i);
      const bool has_replica =
          joined.contains(1) || joined.contains(2) || (joined.contains(3) && joined.contains(4));
      const bool is_enough =
          all.least < 5 && there >= all.least && joined.contains(0) && has_replica;
      if (!is_enough) enough_since = -1;
      if (is_enough && enough_since < 0) enough_since = now;
      const bool is_time = now - enough_since >= 10 || now > 100;
      ASSERT_TRUE(verdict != StartGate::Verdict::start || there == 5 || (is_enough && is_time));
      ASSERT_TRUE(verdict != StartGate::Verdict::give_up || (!is_enough && now > 100));
      ASSERT_LT(now, 103) << "START-2";
    }
  }
}

TEST(StartGate, ARangeIsOneOrTwoNumbers) {
  EXPECT_EQ(parse_node_range("2")->least, 2U);
  EXPECT_FALSE(parse_node_range("2")->count);
  EXPECT_EQ(parse_node_range("2:4")->count, 4U);
  for (const char* bad : {"", "0", "x", "2:", ":3", "3:2", "2:4:6", "-1"})
    EXPECT_FALSE(parse_node_range(bad)) << bad;
}

}  // namespace
}  // namespace cohort::plan::start_gate_test
