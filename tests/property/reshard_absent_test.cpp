// RESHARD-5 over random layouts and losses: what is published among those that are there reaches
// each of them whole, and the engines that stay find their own shards in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "tests/support/plan_gen.hpp"
#include "tests/support/reshard_executor.hpp"
#include "tests/support/reshard_gen.hpp"

namespace cohort::plan {
namespace {

using namespace test;  // generators

std::map<CardId, std::vector<uint64_t>> shards_by_card(const ModelTensors& model,
                                                       const ShardLayout& x) {
  std::map<CardId, std::vector<uint64_t>> shards;
  for (uint32_t i = 0; i < x.ranks.size(); ++i) shards[x.ranks[i]] = shard_of(model, x, i);
  return shards;
}

std::vector<std::byte> raw_bytes_of(const std::vector<uint64_t>& shard) {
  std::vector<std::byte> bytes(shard.size() * 8);
  if (!shard.empty()) std::memcpy(bytes.data(), shard.data(), bytes.size());
  return bytes;
}

std::set<CardId> random_absent(Rng& rng, const ShardLayout& layout) {
  std::set<CardId> absent = {{9999}};  // a card of nobody changes nothing
  for (uint64_t i = 0, count = rng.below(4); i < count; ++i)
    absent.insert(layout.ranks[rng.below(layout.ranks.size())]);
  return absent;
}

/// Every byte of the target arrives at each card that is there, and no card of the others is asked
/// for anything.
void check_arrival(const ReshardPlan& plan) {
  auto before = shards_by_card(plan.model, plan.from), after = shards_by_card(plan.model, plan.to);
  std::vector<std::vector<std::byte>> buffers;
  for (CardId card : plan.cards) buffers.push_back(raw_bytes_of(before[card]));
  auto result = apply_reshard(plan, buffers);
  if (plan.transfers.empty()) return;  // a model without a byte
  ASSERT_TRUE(result) << result.error().to_string();
  for (size_t i = 0; i < plan.cards.size(); ++i)
    ASSERT_TRUE((*result)[i] == raw_bytes_of(after[plan.cards[i]]))
        << "card " << plan.cards[i].value;
}

TEST(ReshardAbsent, Reshard5WhoIsThereHoldsWhatItHeldAndGetsAllOfIt) {
  Rng rng{test::property_seed(23)};
  int shrunk = 0, none_left = 0, with_slots = 0;
  for (int i = 0; i < 800 && !testing::Test::HasFailure(); ++i) {
    ReshardCase x = random_reshard(rng);
    auto whole = plan_reshard(x.model, x.from, x.to, x.options);
    if (!whole) continue;  // a bucket that is too small
    SCOPED_TRACE("case " + std::to_string(i) + "\n" + describe(x));
    const std::set<CardId> absent = random_absent(rng, whole->to);
    auto rest = plan_without(*whole, absent);
    if (whole->to.zero_stage == 3) {
      ASSERT_FALSE(rest);
      EXPECT_EQ(rest.error().code, Errc::invalid_argument);
      continue;
    }
    if (!rest && rest.error().code == Errc::not_found) {
      ++none_left;
      continue;
    }
    if (!rest && rest.error().code == Errc::capacity) continue;  // a bucket that only just held
    ASSERT_TRUE(rest) << rest.error().to_string();
    assert_invariants(*rest);
    auto all = shards_by_card(x.model, whole->to), left = shards_by_card(x.model, rest->to);
    for (const auto& [card, shard] : left) {
      EXPECT_FALSE(absent.contains(card));
      EXPECT_EQ(shard, all.at(card));  // RESHARD-5
    }
    check_arrival(*rest);
    shrunk += left.size() < all.size();
    with_slots += left.size() < all.size() && rest->to.expert_slots.size() > 1;
  }
  std::printf("%d smaller plans, %d of them with rows of slots; none left: %d\n", shrunk,
              with_slots, none_left);
  EXPECT_GT(shrunk, 50);
  EXPECT_GT(none_left, 20);
  EXPECT_GT(with_slots, 3);
}

// Groups of TP cards, as the rollout has them: the oracle keeps the groups that are whole.
TEST(ReshardAbsent, ItIsThePlanOfAJobThatNeverHadThem) {
  Rng rng{test::property_seed(29)};
  for (int i = 0; i < 300; ++i) {
    const uint32_t tp = pick(rng, {1, 2, 4}), dp = static_cast<uint32_t>(2 + rng.below(4));
    ModelTensors model = test::dense_decoder(4, 64, 8, 4, 128, 256);
    ShardLayout from = test::make_layout("train", 1, 1, pick(rng, {1, 2, 3}), 1, 0);
    ShardLayout to =
        test::make_layout("infer", tp, 1, dp, 1, static_cast<uint32_t>(from.ranks.size()));
    auto whole = plan_reshard(model, from, to);
    ASSERT_TRUE(whole);
    const std::set<CardId> absent = random_absent(rng, to);
    std::vector<CardId> ranks;
    for (size_t first = 0; first < to.ranks.size(); first += tp) {
      std::vector<CardId> group(to.ranks.begin() + static_cast<ptrdiff_t>(first),
                                to.ranks.begin() + static_cast<ptrdiff_t>(first + tp));
      if (std::ranges::none_of(group, [&](CardId card) { return absent.contains(card); }))
        ranks.insert(ranks.end(), group.begin(), group.end());
    }
    auto rest = plan_without(*whole, absent);
    ASSERT_EQ(rest.has_value(), !ranks.empty());
    if (!rest) continue;
    ShardLayout fresh = to;
    fresh.dp = static_cast<uint32_t>(ranks.size()) / tp;
    fresh.ranks = ranks;
    ReshardOptions options;
    options.permute_experts = false;
    EXPECT_EQ(*rest, *plan_reshard(model, from, fresh, options));
  }
}

}  // namespace
}  // namespace cohort::plan
