// Groups that kill their processes are convicted, others are not, and the round ends: over replicas
// of processes that die at random beside.
#include "runtime/plan/flow/suspects.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "runtime/base/rng.hpp"
#include "runtime/plan/flow/dispatch.hpp"

namespace cohort::tests {
namespace {

using plan::Death;
using plan::Suspects;

uint64_t suspects_seed() {
  const char* text = std::getenv("COHORT_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

/// A round: the dispatcher and the suspects as the driver has them, processes of one or more
/// replicas, groups that kill, and a number of kills that strike at random.
class Round {
 public:
  explicit Round(uint64_t seed)
      : rng_(seed),
        groups_(10 + rng_.below(40)),
        processes_(static_cast<uint32_t>(1 + rng_.below(3))),
        replicas_(processes_ * static_cast<uint32_t>(1 + rng_.below(2))),
        kills_(rng_.below(8)),
        dispatcher_({replicas_, 1 + rng_.below(3000), 0, 100}),
        suspects_(static_cast<uint32_t>(groups_)) {
    for (uint64_t i = rng_.below(4); i > 0; --i) poison_.insert(rng_.below(groups_));
    for (uint64_t g = 0; g < groups_; ++g) dispatcher_.add({g, g, 2, 50, 0}).value();
  }

  void play() {
    for (size_t moves = 0; !dispatcher_.is_done(); ++moves) {
      ASSERT_LT(moves, 10000U) << "the round does not end";
      for (const plan::DispatchPart& part : dispatcher_.assign()) open_[part.group] = part.replica;
      dispatcher_.assert_invariants();  // DISPATCH-6
      ASSERT_FALSE(open_.empty());
      auto at = open_.begin();
      std::advance(at, static_cast<ptrdiff_t>(rng_.below(open_.size())));
      const auto [group, replica] = *at;
      if (poison_.contains(group)) {
        ++killed_by_[group];
        die(replica % processes_);
      } else if (kills_ > 0 && rng_.below(6) == 0) {
        --kills_;
        if (open_.size() == 1 && suspects_.is_isolated(group)) ++struck_alone_[group];
        die(replica % processes_);
      } else {
        over(group);
      }
      if (::testing::Test::HasFatalFailure()) return;
    }
  }

  void expect_justice() const {
    for (uint64_t group : poison_) {
      EXPECT_TRUE(convicted_.contains(group));
      EXPECT_LE(killed_by_.at(group), 4);  // SUSPECT-3
    }
    for (uint64_t group : convicted_)
      if (!poison_.contains(group)) {
        EXPECT_GE(struck_alone_.at(group), 2) << group;  // SUSPECT-1
      }
    EXPECT_EQ(ended_.size() + convicted_.size(), groups_);
    EXPECT_EQ(suspects_.convicted(), convicted_.size());
  }
  size_t convicted() const { return convicted_.size(); }

 private:
  void over(uint64_t group) {
    for (uint32_t index = 0; index < 2; ++index)
      dispatcher_.end(group, index, open_.at(group), 100);
    open_.erase(group);
    suspects_.acquit(group);
    EXPECT_TRUE(ended_.insert(group).second);
  }
  void die(uint32_t process) {
    std::vector<uint64_t> open;
    for (uint32_t r = process; r < replicas_; r += processes_)
      for (const plan::DispatchPart& part : dispatcher_.lose(r)) {
        open.push_back(part.group);
        open_.erase(part.group);
      }
    const Suspects::Verdict verdict = suspects_.blame(open, {process, "was killed"});
    for (uint64_t group : open)
      if (suspects_.is_isolated(group)) dispatcher_.isolate(group);
    if (verdict.convicted) {
      EXPECT_EQ(open, std::vector<uint64_t>{*verdict.convicted});
      EXPECT_EQ(suspects_.deaths_of(*verdict.convicted).size(), 4U);
      EXPECT_TRUE(convicted_.insert(*verdict.convicted).second);
      for (uint32_t index = 0; index < 2; ++index) dispatcher_.end(*verdict.convicted, index, 0, 1);
    }
    for (uint32_t r = process; r < replicas_; r += processes_) dispatcher_.restore(r);
  }

  Rng rng_;
  uint64_t groups_;
  uint32_t processes_, replicas_;
  uint64_t kills_;
  plan::Dispatcher dispatcher_;
  Suspects suspects_;
  std::set<uint64_t> poison_, ended_, convicted_;
  std::map<uint64_t, uint32_t> open_;
  std::map<uint64_t, int> killed_by_, struck_alone_;
};

TEST(Suspects, ThePoisonIsFoundAndNobodyElse) {  // SUSPECT-1 … 3
  size_t convicted = 0;
  for (uint64_t seed = suspects_seed(); seed < suspects_seed() + 2000; ++seed) {
    SCOPED_TRACE(seed);
    Round round(seed);
    round.play();
    if (HasFatalFailure()) return;
    round.expect_justice();
    convicted += round.convicted();
  }
  EXPECT_GT(convicted, 1000U);
}

TEST(Suspects, ThreeLossesConvictNobodyHoweverTheyStrike) {  // SUSPECT-1
  for (int shape = 0; shape < 8; ++shape) {
    Suspects suspects(8);
    for (int loss = 0; loss < 3; ++loss) {
      const bool is_alone = (shape >> loss & 1) != 0;
      const auto verdict =
          suspects.blame(is_alone ? std::vector<uint64_t>{3} : std::vector<uint64_t>{3, 4}, {});
      EXPECT_FALSE(verdict.convicted);
    }
  }
}

TEST(Suspects, AGroupThatWasPlayedBeginsAnew) {  // SUSPECT-2
  Suspects suspects(8);
  suspects.blame({1, 2}, {0, "first"});
  EXPECT_EQ(suspects.blame({1, 2}, {0, "second"}).isolated, (std::vector<uint64_t>{1, 2}));
  suspects.acquit(2);
  EXPECT_FALSE(suspects.is_isolated(2));
  EXPECT_FALSE(suspects.blame({1}, {0, "third"}).convicted);
  const auto verdict = suspects.blame({1}, {0, "fourth"});
  EXPECT_EQ(verdict.convicted, 1U);
  EXPECT_EQ(suspects.deaths_of(1).back(), (Death{0, "fourth"}));
}

TEST(Suspects, ATwentiethOfARoundMayBeConvictedOneAtLeastEightAtMost) {
  EXPECT_EQ(Suspects(1).limit(), 1U);
  EXPECT_EQ(Suspects(8).limit(), 1U);
  EXPECT_EQ(Suspects(60).limit(), 3U);
  EXPECT_EQ(Suspects(1024).limit(), 8U);
  Suspects suspects(8);
  for (uint64_t group : {1, 2})
    for (int loss = 0; loss < 4; ++loss) {
      EXPECT_FALSE(suspects.is_over_limit());
      suspects.blame({group}, {});
    }
  EXPECT_TRUE(suspects.is_over_limit());
}

}  // namespace
}  // namespace cohort::tests
