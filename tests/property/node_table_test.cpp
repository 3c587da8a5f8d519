// NODE-1 over random joins, beats, losses and silences, against a plain model of who lives.
#include "runtime/plan/membership/node_table.hpp"

#include <gtest/gtest.h>

#include <set>

#include "runtime/base/rng.hpp"

namespace cohort::plan::node_table_test {
namespace {

NodeEntry host(const std::string& name) {
  NodeEntry node;
  node.name = name;
  node.address = "10.0.0.1";
  node.pid = 7;
  return node;
}

TEST(NodeTable, ARankBelongsToOneLivingNode) {
  NodeTable table;
  auto first = table.add(host("a"), 1, 0);
  ASSERT_TRUE(first);
  auto second = table.add(host("b"), 1, 1);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::invalid_argument);
  EXPECT_EQ(second.error().detail,
            "rank 1 is taken by a (10.0.0.1, process 7): give each host a RANK of its own");
  EXPECT_TRUE(table.lose(1, first->epoch));
  auto third = table.add(host("b"), 1, 2);
  ASSERT_TRUE(third);
  EXPECT_FALSE(table.hear(1, first->epoch, 3)) << "the old one is refused";
  EXPECT_FALSE(table.lose(1, first->epoch));
  EXPECT_TRUE(table.hear(1, third->epoch, 3));
}

TEST(NodeTable, WithoutARankTheLowestFreeIdIsTaken) {
  NodeTable table;
  for (uint32_t id = 0; id < 3; ++id) EXPECT_EQ(table.add(host("a"), {}, 0)->id, id);
  table.lose(1, 2);
  EXPECT_EQ(table.missing(4), (std::vector<uint32_t>{1, 3}));
  EXPECT_EQ(table.add(host("b"), {}, 0)->id, 1U);
}

TEST(NodeTable, SilenceIsSeenOnceAndOnlyOfTheSilent) {
  NodeTable table;
  auto a = table.add(host("a"), 0, 0), b = table.add(host("b"), 1, 0);
  EXPECT_TRUE(table.hear(0, a->epoch, 2));
  auto lost = table.lose_silent(3, 2.5);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].id, 1U);
  EXPECT_TRUE(table.lose_silent(3, 2.5).empty());
  EXPECT_FALSE(table.hear(1, b->epoch, 4)) << "it must join anew";
  EXPECT_EQ(table.entries().size(), 2U);
}

// The keeper of the table was stopped for a minute: what was sent to it meanwhile is still unread.
TEST(NodeTable, ALookThatComesLateBlamesNobody) {
  NodeTable table;
  auto a = table.add(host("a"), 0, 0), b = table.add(host("b"), 1, 0);
  for (int i = 1; i <= 4; ++i) {
    table.hear(0, a->epoch, 0.5 * i);
    table.hear(1, b->epoch, 0.5 * i);
    EXPECT_TRUE(table.lose_silent(0.5 * i, 2.5).empty());
  }
  EXPECT_TRUE(table.lose_silent(62, 2.5).empty());
  EXPECT_TRUE(table.hear(0, a->epoch, 62));
  for (int i = 1; i <= 5; ++i) {
    table.hear(0, a->epoch, 62 + 0.5 * i);
    EXPECT_TRUE(table.lose_silent(62 + 0.5 * i, 2.5).empty());
  }
  const auto lost = table.lose_silent(65, 2.5);
  ASSERT_EQ(lost.size(), 1U) << "and who says nothing afterwards is silent";
  EXPECT_EQ(lost[0].id, 1U);
}

TEST(NodeTable, RandomLivesAgreeWithTheModel) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng(seed);
    NodeTable table;
    std::map<uint32_t, uint64_t> living;  // id to epoch
    std::vector<NodeEntry> known;
    double now = 0;
    for (int i = 0; i < 200; ++i) {
      now += 0.01;
      const uint64_t what = rng.below(3);
      if (what == 0) {
        auto rank = static_cast<uint32_t>(rng.below(8));
        auto added = table.add(host("x"), rank, now);
        ASSERT_EQ(added.has_value(), !living.contains(rank)) << "seed " << seed;
        if (!added) continue;
        living[rank] = added->epoch;
        known.push_back(*added);
      } else if (!known.empty()) {
        const NodeEntry& each = known[rng.below(known.size())];
        const bool lives = living.contains(each.id) && living[each.id] == each.epoch;
        if (what == 1) {
          ASSERT_EQ(table.hear(each.id, each.epoch, now), lives) << "seed " << seed;
        } else {
          ASSERT_EQ(table.lose(each.id, each.epoch), lives) << "seed " << seed;
          if (lives) living.erase(each.id);
        }
      }
      for (uint32_t id = 0; id < 8; ++id)
        ASSERT_EQ(table.find(id) != nullptr, living.contains(id)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace cohort::plan::node_table_test
