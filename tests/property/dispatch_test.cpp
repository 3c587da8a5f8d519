// Groups over replicas: nothing lost, nothing twice, balanced books, and the time that a global
// view saves when lengths are skewed.
#include "runtime/plan/flow/dispatch.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "runtime/base/rng.hpp"
#include "tests/support/dispatch_sim.hpp"

namespace cohort::tests {
namespace {

using plan::Dispatcher;
using plan::DispatchGroup;
using plan::DispatchOptions;
using plan::DispatchPart;

uint64_t first_seed() {
  const char* text = std::getenv("COHORT_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

/// Plays random calls; who plays what is kept beside the dispatcher and compared.
class Walk {
 public:
  explicit Walk(uint64_t seed) : rng_(seed) {
    options_.replicas = static_cast<uint32_t>(1 + rng_.below(5));
    options_.open_tokens_max = 50 + rng_.below(2000);
    options_.affinity_tokens = rng_.below(300);
    options_.response_tokens_guess = 1 + rng_.below(200);
    dispatcher_.emplace(options_);
    is_alive_.assign(options_.replicas, true);
  }

  void step() {
    switch (rng_.below(10)) {
      case 0:
      case 1:
        return add();
      case 3:
        return lose_or_restore();
      case 5:
        return isolate();
      case 6:
        return hedge();
      default:
        return end();
    }
  }
  void finish() {
    for (uint32_t r = 0; r < options_.replicas; ++r)
      if (!is_alive_[r]) restore(r);
    while (!dispatcher_->is_done()) {
      hand_out();
      ASSERT_FALSE(open_.empty()) << "groups wait and nobody plays";
      end();
      if (::testing::Test::HasFatalFailure()) return;
    }
    for (uint32_t r = 0; r < options_.replicas; ++r) EXPECT_EQ(dispatcher_->outstanding(r), 0U);
    EXPECT_EQ(ended_.size(), added_);
  }
  void hand_out() {
    std::vector<uint64_t> before;
    std::set<uint32_t> seen;
    for (uint32_t r = 0; r < options_.replicas; ++r) before.push_back(dispatcher_->outstanding(r));
    for (const DispatchPart& part : dispatcher_->assign()) {
      log_.push_back(part);
      ASSERT_TRUE(is_alive_[part.replica]);
      if (seen.insert(part.replica).second) {
        ASSERT_LT(before[part.replica], options_.open_tokens_max);  // DISPATCH-2
      }
      for (uint32_t index : part.indices) {
        ASSERT_FALSE(ended_.contains({part.group, index}));
        std::set<uint32_t>& replicas = open_[{part.group, index}];
        ASSERT_TRUE(replicas.insert(part.replica).second);  // DISPATCH-1
        ASSERT_EQ(replicas.size(), 1U);
      }
    }
    dispatcher_->assert_invariants();
  }
  const std::vector<DispatchPart>& log() const { return log_; }
  size_t hedged() const { return hedged_; }

 private:
  using Key = std::pair<uint64_t, uint32_t>;

  void add() {
    DispatchGroup group{next_id_++, rng_.below(6), static_cast<uint32_t>(1 + rng_.below(5)),
                        rng_.below(100), rng_.below(2) == 0 ? 0 : 1 + rng_.below(400)};
    dispatcher_->add(group).value();
    EXPECT_FALSE(dispatcher_->add(group));
    added_ += group.trajectories;
  }
  // DISPATCH-6: hand_out() asserts it.
  void isolate() {
    if (next_id_ > 0) dispatcher_->isolate(rng_.below(next_id_));
  }
  // A late group is open twice at most, and its second replica has none of its own.
  void hedge() {
    if (open_.empty()) return;
    const uint64_t group = any_open()->first.first;
    auto part = dispatcher_->hedge(group);
    if (!part) return;
    EXPECT_EQ(dispatcher_->waiting_groups(), 0U);
    ASSERT_TRUE(is_alive_[part->replica]);
    for (uint32_t index : part->indices) {
      auto& replicas = open_.at({group, index});
      ASSERT_TRUE(replicas.insert(part->replica).second);
      ASSERT_EQ(replicas.size(), 2U);
    }
    EXPECT_FALSE(dispatcher_->hedge(group));
    ++hedged_;
    dispatcher_->assert_invariants();
  }
  std::map<Key, std::set<uint32_t>>::iterator any_open() {
    auto it = open_.begin();
    std::advance(it, static_cast<ptrdiff_t>(rng_.below(open_.size())));
    return it;
  }
  void end() {
    if (open_.empty()) return;
    const auto it = any_open();
    const auto [key, replicas] = *it;
    // Now and then a former owner reports it instead: it counts, and the present ones are named.
    const bool is_late = rng_.below(6) == 0;
    const uint32_t first = *replicas.begin();
    const uint32_t by = is_late              ? (first + 1) % options_.replicas
                        : rng_.below(2) == 0 ? first
                                             : *replicas.rbegin();
    const auto result = dispatcher_->end(key.first, key.second, by, rng_.below(500));
    EXPECT_TRUE(result.is_first);
    std::set<uint32_t> others = replicas;
    others.erase(by);
    EXPECT_EQ(std::set<uint32_t>(result.still_on.begin(), result.still_on.end()), others);
    EXPECT_TRUE(ended_.insert(key).second);
    open_.erase(it);
    EXPECT_FALSE(dispatcher_->end(key.first, key.second, first, 5).is_first);
  }
  void forget(const DispatchPart& part) {
    for (uint32_t index : part.indices) {
      const auto it = open_.find({part.group, index});
      ASSERT_TRUE(it != open_.end() && it->second == std::set<uint32_t>{part.replica});
      open_.erase(it);
    }
  }
  void restore(uint32_t r) {
    dispatcher_->restore(r);
    is_alive_[r] = true;
  }
  void lose_or_restore() {
    const auto r = static_cast<uint32_t>(rng_.below(options_.replicas));
    if (!is_alive_[r]) return restore(r);
    for (const DispatchPart& part : dispatcher_->lose(r)) forget(part);
    is_alive_[r] = false;
    for (auto& [key, replicas] : open_) {
      replicas.erase(r);
      EXPECT_FALSE(replicas.empty()) << "what was open there alone waits again";
    }
    EXPECT_EQ(dispatcher_->outstanding(r), 0U);  // DISPATCH-3
  }
  Rng rng_;
  DispatchOptions options_;
  std::optional<Dispatcher> dispatcher_;
  std::vector<bool> is_alive_;
  std::map<Key, std::set<uint32_t>> open_;
  std::set<Key> ended_;
  std::vector<DispatchPart> log_;
  uint64_t next_id_ = 0, added_ = 0;
  size_t hedged_ = 0;
};

TEST(Dispatch, NothingIsLostAndNothingEndsTwice) {  // DISPATCH-1 … 3, 5, 6
  size_t hedged = 0;
  for (uint64_t seed = first_seed(); seed < first_seed() + 300; ++seed) {
    SCOPED_TRACE(seed);
    Walk walk(seed);
    for (int i = 0; i < 200; ++i) {
      walk.step();
      walk.hand_out();
      if (HasFatalFailure()) return;
    }
    walk.finish();
    if (HasFatalFailure()) return;
    hedged += walk.hedged();
  }
  EXPECT_GT(hedged, 100U) << "the walk hardly ever hedges";
}

TEST(Dispatch, WhatIsIsolatedIsPlayedLastAndAlone) {  // DISPATCH-6
  Dispatcher dispatcher({2, 1000000, 0, 100});
  for (uint64_t id = 0; id < 4; ++id) dispatcher.add({id, id, 1, 0, 100}).value();
  dispatcher.isolate(0);
  dispatcher.isolate(1);
  const auto first = dispatcher.assign();
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].group + first[1].group, 5U);
  dispatcher.end(2, 0, first[0].group == 2 ? first[0].replica : first[1].replica, 100);
  EXPECT_TRUE(dispatcher.assign().empty()) << "one other is open still";
  dispatcher.end(3, 0, first[0].group == 3 ? first[0].replica : first[1].replica, 100);
  for (uint64_t id = 0; id < 2; ++id) {
    const auto alone = dispatcher.assign();
    ASSERT_EQ(alone.size(), 1U);
    EXPECT_EQ(alone[0].group, id);
    EXPECT_TRUE(dispatcher.assign().empty()) << "the other replica stays idle";
    dispatcher.end(id, 0, alone[0].replica, 100);
  }
  EXPECT_TRUE(dispatcher.is_done());
}

TEST(Dispatch, TheSameCallsGiveTheSameDecisions) {
  Walk first(7), second(7);
  for (int i = 0; i < 400; ++i) {
    first.step();
    first.hand_out();
    second.step();
    second.hand_out();
  }
  EXPECT_FALSE(first.log().empty());
  EXPECT_EQ(first.log(), second.log());
}

TEST(Dispatch, LoadsDifferByAtMostOneGroup) {  // DISPATCH-4
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Dispatcher dispatcher({4, 1000000, 0, 100});
    uint64_t largest = 0;
    for (uint64_t id = 0; id < 40; ++id) {
      const uint64_t response = 1 + rng.below(900);
      dispatcher.add({id, id, 4, 50, response}).value();
      largest = std::max(largest, 4 * (50 + response));
    }
    EXPECT_EQ(dispatcher.assign().size(), 40U);
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t r = 0; r < 4; ++r) {
      least = std::min(least, dispatcher.outstanding(r));
      most = std::max(most, dispatcher.outstanding(r));
    }
    EXPECT_LE(most - least, largest);
  }
}

// A replica that is to go: what it plays it plays to the end.
TEST(Dispatch, ARetiredReplicaEndsWhatItHasAndGetsNothingNew) {
  Dispatcher dispatcher({.replicas = 2, .open_tokens_max = 10, .response_tokens_guess = 10});
  for (uint64_t group = 0; group < 6; ++group) ASSERT_TRUE(dispatcher.add({group, group, 1, 0, 0}));
  const auto first = dispatcher.assign();
  ASSERT_EQ(first.size(), 2U);
  dispatcher.retire(0);
  for (const DispatchPart& part : first) dispatcher.end(part.group, 0, part.replica, 10);
  for (int i = 0; i < 4; ++i) {
    const auto parts = dispatcher.assign();
    dispatcher.assert_invariants();
    ASSERT_EQ(parts.size(), 1U);
    EXPECT_EQ(parts.front().replica, 1U);
    dispatcher.end(parts.front().group, 0, 1, 10);
  }
  EXPECT_TRUE(dispatcher.is_done());
  dispatcher.restore(0);
  ASSERT_TRUE(dispatcher.add({9, 9, 1, 0, 0}));
  EXPECT_EQ(dispatcher.assign().front().replica, 0U);
}

TEST(Dispatch, AGroupFollowsItsPromptWithinTheSlack) {
  Dispatcher dispatcher({3, 1000000, 500, 100});
  for (uint64_t id = 0; id < 3; ++id) dispatcher.add({id, id, 1, 0, 100}).value();
  const auto first = dispatcher.assign();
  ASSERT_EQ(first.size(), 3U);
  const uint32_t home = first[1].replica;
  uint32_t followed = 0;
  for (uint64_t id = 10; id < 20; ++id) {
    dispatcher.add({id, first[1].group, 1, 0, 100}).value();
    followed += dispatcher.assign().at(0).replica == home ? 1 : 0;
  }
  // 100 outstanding everywhere: six more reach the slack, the others go where there is least.
  EXPECT_EQ(followed, 6U);
}

TEST(Dispatch, TheMeanOfWhatEndedIsTheNextExpectation) {
  Dispatcher dispatcher({1, 1000000, 0, 7});
  dispatcher.add({1, 1, 2, 10, 0}).value();
  dispatcher.assign();
  EXPECT_EQ(dispatcher.outstanding(0), 2U * (10 + 7));
  dispatcher.end(1, 0, 0, 100);
  EXPECT_EQ(dispatcher.outstanding(0), 17U);
  dispatcher.end(1, 1, 0, 200);
  EXPECT_EQ(dispatcher.outstanding(0), 0U);
  dispatcher.add({2, 2, 1, 10, 0}).value();
  dispatcher.assign();
  EXPECT_EQ(dispatcher.outstanding(0), 160U);
}

/// Mean over seeds of makespan / bound, and of the even split's.
struct Ratios {
  double even = 0, dispatched = 0;
  size_t moved = 0;
};

Ratios simulate(const std::vector<double>& speeds, bool is_known) {
  constexpr uint64_t k_seeds = 10;
  constexpr size_t k_groups = 256;
  constexpr uint64_t k_open_tokens = DispatchSim::k_slots * 450;  // half again the slots
  Ratios sum;
  for (uint64_t seed = 1; seed <= k_seeds; ++seed) {
    const auto groups = skewed_groups(seed, k_groups, 8, is_known);
    DispatchSim even(groups, speeds), global(groups, speeds);
    sum.even += even.even_split() / even.bound() / k_seeds;
    const auto replicas = static_cast<uint32_t>(speeds.size());
    sum.dispatched +=
        global.dispatched({replicas, k_open_tokens, 0, 250}) / global.bound() / k_seeds;
    EXPECT_EQ(global.ended(), k_groups * 8);
    sum.moved += global.moved();
  }
  return sum;
}

TEST(DispatchSimulation, SkewedLengthsEndEarlierThanUnderAnEvenSplit) {
  struct Row {
    const char* what;
    std::vector<double> speeds;
    bool is_known;
  };
  for (const Row& row : {Row{"four equal replicas", {1, 1, 1, 1}, false},
                         Row{"lengths known from an earlier epoch", {1, 1, 1, 1}, true},
                         Row{"one replica at half speed", {1, 1, 1, 0.5}, false}}) {
    const Ratios found = simulate(row.speeds, row.is_known);
    std::printf("[ makespan ] %s: even split %.2f x bound, dispatcher %.2f x bound, %.1f moves\n",
                row.what, found.even, found.dispatched, static_cast<double>(found.moved) / 10);
    EXPECT_LT(found.dispatched, found.even) << row.what;
  }
}

/// Mean over seeds of makespan / bound, where one of four replicas is slower from the beginning.
struct Hedged {
  double alone = 0, hedged = 0;  // without and with
  double hedges = 0, twice = 0;  // groups that are played twice; tokens that were for nothing
};

Hedged simulate_hedged(double slow_speed) {
  constexpr uint64_t k_seeds = 10;
  constexpr size_t k_groups = 256;
  constexpr uint64_t k_open_tokens = DispatchSim::k_slots * 450;
  Hedged mean;
  for (uint64_t seed = 1; seed <= k_seeds; ++seed) {
    const auto groups = skewed_groups(seed, k_groups, 8, false);
    const std::vector<double> speeds = {1, 1, 1, slow_speed};
    for (double factor : {0.0, 3.0}) {
      DispatchSim sim(groups, speeds);
      const double took =
          sim.leased({4, k_open_tokens, 0, 250}, {factor, 1}) / sim.bound() / k_seeds;
      (factor > 0 ? mean.hedged : mean.alone) += took;
      EXPECT_EQ(sim.ended(), k_groups * 8);
      if (factor == 0) continue;
      mean.hedges += static_cast<double>(sim.moved()) / k_seeds;
      mean.twice += sim.wasted_share() / k_seeds;
    }
  }
  return mean;
}

// Leases as the driver has them: a group ends as a whole, on one replica, and what another has
// begun of it is given up.
TEST(DispatchSimulation, ASlowReplicaDoesNotHoldUpTheRound) {
  for (double speed : {1.0, 0.5, 0.1, 0.01}) {
    const Hedged found = simulate_hedged(speed);
    std::printf(
        "[ makespan ] one of four at speed %.2f: %.2f x bound, hedged %.2f x bound, %.1f groups of "
        "256 twice, %.1f %% of the tokens for nothing\n",
        speed, found.alone, found.hedged, found.hedges, 100 * found.twice);
    EXPECT_LE(found.hedged, found.alone * 1.01) << speed;
    EXPECT_LT(found.hedged, 1.6) << speed;
    if (speed <= 0.1) {
      EXPECT_LT(found.hedged, 0.5 * found.alone) << speed;
    }
  }
}

}  // namespace
}  // namespace cohort::tests
