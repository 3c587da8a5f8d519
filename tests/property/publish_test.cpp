/// Random models and layouts, all modes, cards as threads: the executor against apply_reshard, its
/// counters against the plan's tables, staging against two buckets (PUBLISH-1 to 5).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/publish/copy.hpp"
#include "tests/support/plan_gen.hpp"
#include "tests/support/publish_group.hpp"
#include "tests/support/reshard_gen.hpp"

namespace cohort::publish {
namespace {

using plan::ReshardMode;
using plan::ReshardPlan;
using test::Bytes;
using test::PublishGroup;

/// The bucket that a plan keeps to when it was not told one.
uint64_t bucket_of(const ReshardPlan& plan) {
  uint64_t bucket = plan.options.bucket_bytes;
  for (const plan::RankBytes& x : plan.ranks) bucket = std::max(bucket, x.staging_peak);
  return bucket;
}

/// The reports of one publish are the plan's tables, and the sums of both sides agree.
void expect_tables(const ReshardPlan& plan, const std::vector<PublishReport>& reports) {
  std::vector<uint64_t> by_step(plan.steps.size(), 0), sums(plan.cards.size(), 0);
  for (size_t i = 0; i < reports.size(); ++i) {
    const PublishReport& report = reports[i];
    EXPECT_EQ(report.sent_bytes, plan.ranks[i].send);
    EXPECT_EQ(report.received_bytes, plan.ranks[i].receive);
    EXPECT_EQ(report.kept_bytes, plan.ranks[i].kept);
    if (plan.options.mode == ReshardMode::p2p) {
      EXPECT_EQ(report.received_bytes, plan.ranks[i].lower_bound);
    }
    EXPECT_LE(report.staging_peak, 2 * bucket_of(plan)) << "PUBLISH-3";
    for (size_t k = 0; k < by_step.size(); ++k) by_step[k] += report.received_by_step[k];
    for (const ShardSum& x : report.sent_to)
      sums[static_cast<size_t>(std::ranges::lower_bound(plan.cards, x.card) -
                               plan.cards.begin())] += x.sum;
  }
  for (size_t k = 0; k < by_step.size(); ++k) EXPECT_EQ(by_step[k], plan.steps[k].receive_total);
  for (size_t i = 0; i < reports.size(); ++i) EXPECT_EQ(sums[i], reports[i].sum) << "PUBLISH-1";
}

void run_random(const std::string& wire, uint64_t seed, int cases) {
  for (int i = 0; i < cases && !::testing::Test::HasFailure(); ++i) {
    Rng rng = Rng(seed).fork(static_cast<uint64_t>(i));
    test::ReshardCase x = test::random_reshard(rng);
    auto plan = plan::plan_reshard(x.model, x.from, x.to, x.options);
    if (!plan || plan->transfers.empty()) continue;
    SCOPED_TRACE("case " + std::to_string(i) + " of COHORT_SEED=" + std::to_string(seed) + ", " +
                 std::string(to_string(plan->options.mode)) + "\n" + test::describe(x));
    PublishGroup::Options options;
    options.wire = wire;
    options.chunk_bytes = 8 + rng.below(400);
    PublishGroup group(*plan, options);
    for (uint64_t version : {1, 2}) {
      group.before = test::random_shards(*plan, 8, rng.next_u64());
      auto reports = group.publish(version);
      expect_tables(*plan, reports);
      group.expect_bytes(group.before);
      group.commit(version);
    }
  }
}

class PublishProperty : public ::testing::TestWithParam<const char*> {};

TEST_P(PublishProperty, RandomLayoutsArriveBitForBitAndByteForByte) {
  run_random(GetParam(), test::property_seed(20), 60);
}

INSTANTIATE_TEST_SUITE_P(Wires, PublishProperty, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& x) { return std::string(x.param); });

// ---- cast ------------------------------------------------------------------------------------

/// Nearest by distance, ties to the even one: from the definition, not from the bit trick.
uint16_t nearest_bf16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  auto low = static_cast<uint16_t>(bits >> 16);
  if (std::isnan(value)) return static_cast<uint16_t>(low | 0x40);
  uint32_t rest = bits & 0xFFFF;
  if (rest > 0x8000 || (rest == 0x8000 && low % 2 == 1)) return static_cast<uint16_t>(low + 1);
  return low;
}

TEST(PublishCast, EveryKindOfFloatIsRoundedToNearestEven) {
  Rng rng(test::property_seed(21));
  std::vector<float> values;
  for (uint32_t high = 0; high < 0x10000; high += 7)  // all exponents, signs, NaN, infinities
    for (uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      values.push_back(std::bit_cast<float>(high << 16 | low));
  for (int i = 0; i < 100000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(rng.next_u64())));
  for (size_t count : {values.size(), size_t{1}, size_t{15}, size_t{17}}) {
    std::vector<uint16_t> rounded(count);
    round_to_bf16(std::as_bytes(std::span(values)).data(),
                  std::as_writable_bytes(std::span(rounded)).data(), count);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(rounded[i], nearest_bf16(values[i])) << values[i];
  }
}

TEST(PublishCast, MasterWeightsArriveRounded) {
  plan::ModelTensors model = test::dense_decoder(4, 64, 4, 2, 128, 256);
  for (ReshardMode mode : {ReshardMode::p2p, ReshardMode::all_gather}) {
    plan::ReshardOptions plan_options;
    plan_options.mode = mode;
    plan_options.bucket_bytes = 40000;
    auto plan = plan::plan_reshard(model, test::make_layout("train", 2, 2, 1, 1),
                                   test::make_layout("infer", 1, 1, 2, 1, 2), plan_options);
    ASSERT_TRUE(plan) << plan.error().to_string();
    PublishGroup::Options options;
    options.from = tensor::Dtype::f32;
    options.to = tensor::Dtype::bf16;
    options.chunk_bytes = 1000;
    PublishGroup group(*plan, options);
    group.before = test::random_shards(*plan, 4, 22);
    std::vector<Bytes> rounded;
    for (const Bytes& shard : group.before) {
      rounded.emplace_back(shard.size() / 2);
      for (size_t i = 0; i < shard.size() / 4; ++i) {
        float value = 0;
        std::memcpy(&value, shard.data() + 4 * i, 4);
        uint16_t half = nearest_bf16(value);
        std::memcpy(rounded.back().data() + 2 * i, &half, 2);
      }
    }
    expect_tables(*plan, group.publish(1));
    group.expect_bytes(rounded);
  }
}

}  // namespace
}  // namespace cohort::publish
