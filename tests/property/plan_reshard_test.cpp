/// Random models and layouts: RESHARD-1 by moving tensors whose elements are their own indices,
/// against an oracle that enumerates shards element by element; RESHARD-2 and 3 by counting.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "tests/support/plan_gen.hpp"
#include "tests/support/reshard_executor.hpp"
#include "tests/support/reshard_gen.hpp"
#include "tests/support/reshard_measures.hpp"

namespace cohort::plan {
namespace {

using namespace test;  // generators

// ---- oracle ---------------------------------------------------------------------------------

using Shard = std::vector<uint64_t>;
std::map<uint32_t, Shard> shards_of(const ModelTensors& model, const ShardLayout& x) {
  std::map<uint32_t, Shard> shards;  // by card id
  for (uint32_t i = 0; i < x.ranks.size(); ++i) shards[x.ranks[i].value] = shard_of(model, x, i);
  return shards;
}

std::vector<std::byte> bytes_of(const Shard& shard) {
  std::vector<std::byte> bytes(shard.size() * 8);
  if (!shard.empty()) std::memcpy(bytes.data(), shard.data(), bytes.size());
  return bytes;
}

// ---- properties -----------------------------------------------------------------------------

void check_target(const ReshardCase& x, const ReshardPlan& plan) {
  auto before = shards_of(x.model, plan.from), after = shards_of(x.model, plan.to);
  std::vector<std::vector<std::byte>> buffers;
  for (CardId card : plan.cards) buffers.push_back(bytes_of(before[card.value]));
  auto result = apply_reshard(plan, buffers);
  if (plan.transfers.empty()) return;  // a model without a byte
  ASSERT_TRUE(result) << result.error().to_string();
  for (size_t i = 0; i < plan.cards.size(); ++i)
    ASSERT_TRUE((*result)[i] == bytes_of(after[plan.cards[i].value])) << "card " << i;  // RESHARD-1
}

void check_bounds(const ReshardCase& x, const ReshardPlan& plan) {
  auto before = shards_of(x.model, plan.from), after = shards_of(x.model, plan.to);
  for (size_t i = 0; i < plan.cards.size(); ++i) {
    uint32_t card = plan.cards[i].value;
    std::set<uint64_t> have(before[card].begin(), before[card].end());
    uint64_t missing = 0;
    for (uint64_t id : after[card]) missing += have.count(id) == 0;
    const RankBytes& row = plan.ranks[i];
    EXPECT_EQ(row.lower_bound, missing * 8);
    EXPECT_EQ(row.resident_before, before[card].size() * 8);
    EXPECT_EQ(row.resident_after, after[card].size() * 8);
    EXPECT_GE(row.receive, row.lower_bound);
    if (plan.options.mode == ReshardMode::p2p) {
      EXPECT_EQ(row.receive, row.lower_bound);
    }
  }
}

void check_tables(const ReshardCase& x, const ReshardPlan& plan) {
  uint64_t sent = 0, by_step = 0;
  for (const RankBytes& row : plan.ranks) sent += row.send;
  for (const StepBytes& row : plan.steps) by_step += row.receive_total;
  EXPECT_EQ(sent, plan.receive_total());
  EXPECT_EQ(by_step, sent);
  ReshardOptions tables = x.options;
  tables.tables_only = true;
  auto again = plan_reshard(x.model, x.from, x.to, tables);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->transfers.empty());
  EXPECT_EQ(again->ranks, plan.ranks);
  EXPECT_EQ(again->steps, plan.steps);
}

TEST(ReshardProperty, EveryModeReachesTheTargetWithinItsBounds) {
  Rng rng{test::property_seed(11)};
  std::map<std::string, int> seen;
  for (int i = 0; i < 1500 && !testing::Test::HasFailure(); ++i) {
    ReshardCase x = random_reshard(rng);
    auto plan = plan_reshard(x.model, x.from, x.to, x.options);
    if (!plan) {
      EXPECT_EQ(plan.error().code, Errc::capacity) << plan.error().to_string();
      EXPECT_GT(x.options.bucket_bytes, 0u);
      ++seen["bucket too small"];
      continue;
    }
    SCOPED_TRACE("case " + std::to_string(i) + ", mode " +
                 std::string(to_string(plan->options.mode)));
    assert_invariants(*plan);
    check_target(x, *plan);
    check_bounds(x, *plan);
    check_tables(x, *plan);
    EXPECT_EQ(*plan_reshard(x.model, x.from, x.to, x.options), *plan);
    ++seen[std::string(to_string(plan->options.mode))];
  }
  for (const auto& [what, count] : seen) std::printf("%s: %d\n", what.c_str(), count);
  for (const char* mode : {"all_gather", "tp_then_pp", "directed", "p2p"})
    EXPECT_GT(seen[mode], 99);
}

/// The busiest sender against the bound that no choice of senders can beat.
TEST(ReshardProperty, SendersAreBalanced) {
  Rng rng{test::property_seed(13)};
  double worst = 0, sum = 0;
  int count = 0;
  for (int i = 0; i < 400; ++i) {
    ModelTensors model = test::dense_decoder(static_cast<uint32_t>(4 * (1 + rng.below(4))), 512, 16,
                                             pick(rng, {2, 4, 8}), 2048, 4096);
    auto layout = [&](uint32_t first) {
      ShardLayout x = test::make_layout("random", pick(rng, {1, 2, 4, 8}), pick(rng, {1, 2, 4}),
                                        pick(rng, {1, 2, 3, 4}), 1, first);
      return x;
    };
    ShardLayout from = layout(0);
    ShardLayout to = layout(rng.below(2) ? 0 : static_cast<uint32_t>(from.ranks.size()));
    ReshardOptions options;
    options.bucket_bytes = 1 << 20;
    auto plan = plan_reshard(model, from, to, options);
    ASSERT_TRUE(plan) << plan.error().to_string();
    const uint64_t bound = test::send_bound(*plan);
    if (bound == 0) continue;
    uint64_t most = std::ranges::max(plan->ranks, {}, &RankBytes::send).send;
    ASSERT_GE(most, bound);
    uint64_t unit = options.bucket_bytes / 64;  // a sender is loaded by whole units
    EXPECT_LE(most, bound + 3 * unit) << describe(from) << "\n -> " << describe(to);
    double ratio = static_cast<double>(most) / static_cast<double>(bound);
    worst = std::max(worst, ratio);
    sum += ratio;
    ++count;
  }
  std::printf("busiest sender / bound: mean %.4f, worst %.4f of %d plans\n", sum / count, worst,
              count);
  EXPECT_LT(sum / count, 1.01);
}

TEST(ReshardProperty, PermutedExpertsNeverMoveMore) {
  Rng rng{test::property_seed(17)};
  for (int i = 0; i < 300; ++i) {
    ReshardCase x = random_reshard(rng);
    x.options = {};
    x.options.tables_only = true;
    x.to.expert_slots.clear();
    ReshardPlan permuted = *plan_reshard(x.model, x.from, x.to, x.options);
    x.options.permute_experts = false;
    ReshardPlan natural = *plan_reshard(x.model, x.from, x.to, x.options);
    ASSERT_LE(permuted.receive_total(), natural.receive_total());
    ASSERT_EQ(!permuted.to.expert_slots.empty(),
              permuted.receive_total() < natural.receive_total());
  }
}

/// Bytes of the best of all expert slots, one row for every replica alike, by trying each.
uint64_t least_bytes(ReshardCase x) {
  uint32_t experts = x.model.tensors[0].experts;
  std::vector<uint32_t> row;
  for (uint32_t i = 0; i < experts; ++i) row.push_back(i / (experts / x.to.ep));
  uint64_t least = ~uint64_t{0};
  do {
    x.to.expert_slots = {row};
    least = std::min(least, plan_reshard(x.model, x.from, x.to, x.options)->lower_bound_total());
  } while (std::ranges::next_permutation(row).found);
  return least;
}

TEST(ReshardProperty, PermutedExpertsMoveLeast) {
  Rng rng{test::property_seed(19)};
  int count = 0, single = 0;
  double worst = 1;
  for (int i = 0; i < 2000; ++i) {
    ReshardCase x;
    x.model = {static_cast<uint32_t>(1 + rng.below(5)), {}};
    x.model.tensors = {
        test::layer_tensor("experts", TensorSpec::Kind::expert, 0, x.model.layers, 1, 4, 1, 4)};
    x.model.tensors[0].experts = pick(rng, {4, 6});
    x.from = random_layout(rng, x.model, 0, 16);
    x.to = random_layout(rng, x.model, 0, 16);
    x.to.expert_slots.clear();
    x.options.tables_only = true;
    if (x.to.ep < 2 || x.to.expert_replicas() > 1) continue;
    uint64_t ours = plan_reshard(x.model, x.from, x.to, x.options)->lower_bound_total();
    uint64_t least = least_bytes(x);
    ASSERT_GE(ours, least);
    ++count;
    bool is_plain = x.to.pp == 1 && x.to.expert_tp == 1 && x.from.expert_slots.size() < 2;
    if (is_plain) {  // a slot is one card, and replicas are alike
      ++single;
      EXPECT_EQ(ours, least) << describe(x);
    }
    if (least > 0) worst = std::max(worst, static_cast<double>(ours) / static_cast<double>(least));
  }
  std::printf("%d plans, %d of them plain; worst against the best slots: %.3f\n", count, single,
              worst);
  EXPECT_GT(single, 10);
  EXPECT_LT(worst, 1.05);
}

TEST(ReshardErrors, SayWhatDoesNotFit) {
  ModelTensors model = test::dense_decoder(6, 64, 8, 2, 128, 256);
  ShardLayout good = test::make_layout("train", 2, 2, 2, 1);
  auto message = [&](ShardLayout from, ReshardOptions options = {}) {
    auto plan = plan_reshard(model, from, good, options);
    return plan ? std::string("accepted") : plan.error().detail;
  };
  EXPECT_EQ(message(good), "accepted");
  ShardLayout x = test::make_layout("train", 3, 1, 1, 1);
  EXPECT_EQ(message(x), "reshard: layout train: tp 3 does not divide the 8 parts of q");
  x = good;
  x.ranks[3] = x.ranks[1];
  EXPECT_EQ(message(x), "reshard: layout train: card 1 is named twice; a card has one position");
  x = good;
  x.ranks.pop_back();
  EXPECT_EQ(message(x),
            "reshard: layout train: tp 2 x dp 2 x pp 2 = 8, but 7 cards are given; give exactly "
            "that many");
  x = good;
  x.layers_per_stage = {3, 4};
  EXPECT_EQ(message(x),
            "reshard: layout train: layers_per_stage names 2 stages with 7 layers; pp is 2 and the "
            "model has 6 layers");
  x = test::make_layout("train", 1, 4, 1, 1);
  EXPECT_EQ(message(x),
            "reshard: layout train: pp 4 does not divide 6 layers; say layers_per_stage");
  x = test::make_layout("train", 1, 1, 2, 3);
  EXPECT_EQ(message(x), "reshard: layout train: ep 3 x expert_tp 1 does not divide tp x dp = 2");
  ReshardOptions tiny;
  tiny.bucket_bytes = 1;
  EXPECT_EQ(message(good, tiny), "reshard: bucket_bytes 1 is below one element of 2 bytes");
}

}  // namespace
}  // namespace cohort::plan
