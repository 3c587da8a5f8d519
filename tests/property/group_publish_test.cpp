/// Publishing by all-to-all: random layouts, all modes, cards as threads, against apply_reshard and
/// the plan's tables; what one card has to complain of is every card's error.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <thread>

#include "runtime/publish/group_member.hpp"
#include "tests/support/plan_gen.hpp"
#include "tests/support/publish_group.hpp"
#include "tests/support/reshard_gen.hpp"

namespace cohort::publish {
namespace {

using test::Bytes;

/// An all-to-all of threads. `damage` flips a bit of the n-th exchange, from card 0 to the last.
class ThreadExchange {
 public:
  explicit ThreadExchange(size_t cards) : sends_(cards), barrier_(static_cast<ptrdiff_t>(cards)) {}

  AllToAll of(size_t card) {
    return [this, card](std::span<const std::span<const std::byte>> send,
                        std::span<const std::span<std::byte>> receive) -> Expected<void> {
      sends_[card] = send;
      barrier_.arrive_and_wait();
      for (size_t from = 0; from < receive.size(); ++from) {
        std::span<const std::byte> bytes = sends_[from][card];
        EXPECT_EQ(bytes.size(), receive[from].size());
        std::ranges::copy(bytes, receive[from].begin());
        if (!bytes.empty() && exchanges_ == damage && from == 0 && card + 1 == receive.size())
          receive[from][bytes.size() / 2] ^= std::byte{4};
      }
      barrier_.arrive_and_wait();
      if (card == 0) ++exchanges_;
      barrier_.arrive_and_wait();
      return {};
    };
  }
  int damage = -1;

 private:
  std::vector<std::span<const std::span<const std::byte>>> sends_;
  std::barrier<> barrier_;
  int exchanges_ = 0;
};

class Cards {
 public:
  explicit Cards(const plan::ReshardPlan& plan)
      : plan_(std::make_shared<plan::ReshardPlan>(plan)), exchange(plan.cards.size()) {
    plan::ReshardCopies copies(*plan_);
    for (uint32_t i = 0; i < plan_->cards.size(); ++i) {
      after.emplace_back(copies.bytes_after(i), std::byte{0xEE});
      tables_.push_back({{shards_before_, plan_->cards[i]}, {shards_after_, plan_->cards[i]}});
    }
    for (size_t i = 0; i < plan_->cards.size(); ++i) {
      MemberOptions x;
      x.plan = plan_;
      x.card = plan_->cards[i];
      x.from = x.to =
          plan.model.tensors[0].element_bytes == 8 ? tensor::Dtype::f64 : tensor::Dtype::bf16;
      x.source = [this, i](const PartName& name) {
        auto part = flat_source(tables_[i].before, before[i])(name);
        return is_short && i == 0 ? part.first(part.size() - 2) : part;
      };
      x.target = [this, i](const PartName& name) {
        return flat_target(tables_[i].after, after[i])(name);
      };
      members.push_back(GroupMember::open(std::move(x), exchange.of(i)).value());
    }
  }

  /// `versions`: of each card, by index.
  std::vector<Expected<PublishReport>> publish(const std::vector<uint64_t>& versions) {
    std::vector<Expected<PublishReport>> results(members.size(), Error{Errc::internal, "not run"});
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < members.size(); ++i)
      threads.emplace_back([&, i] { results[i] = members[i]->publish(versions[i]); });
    threads.clear();
    return results;
  }
  std::vector<Expected<PublishReport>> publish(uint64_t version) {
    return publish(std::vector<uint64_t>(members.size(), version));
  }

 private:
  struct Tables {
    PartTable before, after;
  };
  std::shared_ptr<plan::ReshardPlan> plan_;
  plan::Shards shards_before_{plan_->model, plan_->from}, shards_after_{plan_->model, plan_->to};
  std::vector<Tables> tables_;

 public:
  ThreadExchange exchange;
  bool is_short = false;
  std::vector<Bytes> before, after;
  std::vector<std::unique_ptr<GroupMember>> members;
};

plan::ReshardPlan small_plan() {
  plan::ReshardOptions options;
  options.bucket_bytes = 40000;
  return plan::plan_reshard(test::dense_decoder(4, 64, 4, 2, 128, 256),
                            test::make_layout("train", 2, 2, 1, 1),
                            test::make_layout("infer", 1, 1, 2, 1, 2), options)
      .value();
}

TEST(GroupPublish, RandomLayoutsArriveBitForBitAndByteForByte) {
  const uint64_t seed = test::property_seed(24);
  for (int i = 0; i < 24 && !::testing::Test::HasFailure(); ++i) {
    Rng rng = Rng(seed).fork(static_cast<uint64_t>(i));
    test::ReshardCase x = test::random_reshard(rng);
    auto plan = plan::plan_reshard(x.model, x.from, x.to, x.options);
    if (!plan || plan->transfers.empty()) continue;
    SCOPED_TRACE("case " + std::to_string(i) + " of COHORT_SEED=" + std::to_string(seed) + "\n" +
                 test::describe(x));
    Cards cards(*plan);
    for (uint64_t version : {1, 2}) {
      cards.before = test::random_shards(*plan, 8, rng.next_u64());
      std::vector<uint64_t> sums(plan->cards.size(), 0);
      auto results = cards.publish(version);
      for (size_t card = 0; card < results.size(); ++card) {
        ASSERT_TRUE(results[card]) << results[card].error().to_string();
        const PublishReport& report = *results[card];
        EXPECT_EQ(report.sent_bytes, plan->ranks[card].send);
        EXPECT_EQ(report.received_bytes, plan->ranks[card].receive);
        EXPECT_EQ(report.kept_bytes, plan->ranks[card].kept);
        for (const ShardSum& sum : report.sent_to)
          sums[static_cast<size_t>(std::ranges::lower_bound(plan->cards, sum.card) -
                                   plan->cards.begin())] += sum.sum;
        EXPECT_TRUE(cards.members[card]->commit(version));
      }
      for (size_t card = 0; card < results.size(); ++card)
        EXPECT_EQ(sums[card], results[card]->sum);
      auto expected = plan::apply_reshard(*plan, cards.before).value();
      for (size_t card = 0; card < expected.size(); ++card)
        EXPECT_TRUE(expected[card] == cards.after[card]) << "card " << card;
    }
  }
}

TEST(GroupPublish, AnExchangeStaysWithinTwoBuckets) {  // PUBLISH-3
  const plan::ReshardPlan plan = small_plan();
  Cards cards(plan);
  cards.before = test::random_shards(plan, 2, 25);
  for (auto& result : cards.publish(1)) {
    ASSERT_TRUE(result) << result.error().to_string();
    EXPECT_LE(result->staging_peak, 2 * plan.options.bucket_bytes);
  }
}

TEST(GroupPublish, DamageIsEverybodysErrorAndTheServedVersionStays) {  // PUBLISH-1, PUBLISH-2
  const plan::ReshardPlan plan = small_plan();
  Cards cards(plan);
  cards.before = test::random_shards(plan, 2, 26);
  for (auto& result : cards.publish(1)) ASSERT_TRUE(result);
  for (auto& member : cards.members) ASSERT_TRUE(member->commit(1));
  const int words = 2;  // exchanges before the first step
  const int of_one = static_cast<int>(plan.rounds) + 2 * words;
  cards.exchange.damage = of_one + words;  // the first step of version 2
  for (auto& result : cards.publish(2)) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::corrupt);
    EXPECT_NE(result.error().detail.find("card 3"), std::string::npos) << result.error().detail;
  }
  for (auto& member : cards.members) {
    EXPECT_EQ(member->commit(2).error().code, Errc::protocol);
    EXPECT_EQ(member->served(), 1U);
  }
  cards.exchange.damage = -1;
  for (auto& result : cards.publish(3)) EXPECT_TRUE(result) << result.error().to_string();
}

TEST(GroupPublish, CardsThatDoNotAgreeMoveNothing) {
  const plan::ReshardPlan plan = small_plan();
  Cards cards(plan);
  cards.before = test::random_shards(plan, 2, 27);
  std::vector<uint64_t> versions(cards.members.size(), 5);
  versions[1] = 6;
  for (auto& result : cards.publish(versions)) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::invalid_argument);
    EXPECT_NE(result.error().detail.find("version 6"), std::string::npos) << result.error().detail;
  }
  for (auto& result : cards.publish(4)) EXPECT_FALSE(result);  // versions grow
  cards.is_short = true;                                       // a part of another size
  for (auto& result : cards.publish(7)) {
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().detail.find("card 0"), std::string::npos) << result.error().detail;
  }
  cards.is_short = false;
  for (auto& result : cards.publish(8)) EXPECT_TRUE(result) << result.error().to_string();
}

}  // namespace
}  // namespace cohort::publish
