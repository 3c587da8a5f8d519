/// Random models and layouts, all modes, cards as threads: the executor against apply_reshard, its
/// counters against the plan's tables, staging against two buckets (PUBLISH-1 to 5).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/publish/copy.hpp"
#include "runtime/publish/delta.hpp"
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

// ---- delta -----------------------------------------------------------------------------------

/// Changes a share of the words, the same in all replicas: by content.
void change_words(std::vector<Bytes>& shards, size_t word, double share, uint64_t seed) {
  for (Bytes& shard : shards)
    for (size_t i = 0; i + word <= shard.size(); i += word) {
      uint64_t value = 0;
      std::memcpy(&value, shard.data() + i, word);
      Rng rng = Rng(seed).fork(value);
      if (rng.uniform() >= share) continue;
      value += 1 + rng.below(3);
      std::memcpy(shard.data() + i, &value, word);
    }
}

TEST(PublishDelta, CodesAnyChangeAndRefusesWhatWouldBeLarger) {
  Rng rng(test::property_seed(23));
  for (int i = 0; i < 400; ++i) {
    size_t word = size_t{2} << rng.below(3), count = 1 + rng.below(3000);
    Bytes base(word * count);
    test::fill_random(base, rng.next_u64());
    std::vector<Bytes> now{base};
    double share = rng.below(4) == 0 ? 0 : rng.uniform() * 0.4;
    change_words(now, word, share, rng.next_u64());
    Bytes code(base.size());
    auto bytes = encode_delta(now[0], base, word, code);
    if (!bytes) {
      EXPECT_GT(share * static_cast<double>(count) * static_cast<double>(word + 1) + 64,
                static_cast<double>(base.size()) / 2);
      continue;
    }
    ASSERT_LT(*bytes, base.size());
    ASSERT_TRUE(apply_delta({code.data(), *bytes}, word, base));
    ASSERT_TRUE(base == now[0]);
    // A code that was cut or does not fit its chunk is an error, not a wrong word.
    EXPECT_FALSE(apply_delta({code.data(), *bytes - 1}, word, base));
    if (*bytes > 4 + word) {
      EXPECT_FALSE(apply_delta({code.data(), *bytes}, word, std::span(base).first(0)));
    }
  }
}

struct DeltaRig {
  explicit DeltaRig(const std::string& wire, uint64_t chunk_bytes = uint64_t{1} << 20) {
    plan::ModelTensors model = test::dense_decoder(2, 128, 4, 2, 256, 512);
    plan::ReshardOptions options;
    options.bucket_bytes = 1 << 16;
    auto plan = plan::plan_reshard(model, test::make_layout("train", 2, 1, 1, 1),
                                   test::make_layout("infer", 1, 1, 2, 1, 2), options);
    EXPECT_TRUE(plan);
    PublishGroup::Options group_options;
    group_options.wire = wire;
    group_options.from = group_options.to = tensor::Dtype::bf16;
    group_options.is_delta = true;
    group_options.chunk_bytes = chunk_bytes;
    group = std::make_unique<PublishGroup>(*plan, group_options);
    weights = test::random_shards(group->plan(), 2, 24);
  }
  /// Publishes `weights`; returns the share of the bytes that travelled.
  double publish(uint64_t version) {
    group->before = weights;
    uint64_t wire = 0, sent = 0;
    delta_peers = 0;
    for (const PublishReport& report : group->publish(version)) {
      wire += report.wire_bytes;
      sent += report.sent_bytes;
      delta_peers += report.delta_peers;
      EXPECT_LE(report.staging_peak, 2 * group->plan().options.bucket_bytes) << "PUBLISH-3";
    }
    group->expect_bytes(weights);
    return static_cast<double>(wire) / static_cast<double>(sent);
  }
  std::unique_ptr<PublishGroup> group;
  std::vector<Bytes> weights;
  uint32_t delta_peers = 0;
};

class PublishDeltaWires : public ::testing::TestWithParam<const char*> {};

TEST_P(PublishDeltaWires, ChangedWordsAloneTravelAgainstTheServedVersion) {  // PUBLISH-5
  DeltaRig rig(GetParam());
  EXPECT_EQ(rig.publish(1), 1.0);  // nobody serves anything yet
  rig.group->commit(1);
  change_words(rig.weights, 2, 0.03, 1);
  EXPECT_LE(rig.publish(2), 0.06);
  EXPECT_EQ(rig.delta_peers, 4u);
  rig.group->commit(2);
  change_words(rig.weights, 2, 0.9, 2);  // a delta would be larger
  EXPECT_EQ(rig.publish(3), 1.0);
  rig.group->commit(3);
  change_words(rig.weights, 2, 0.03, 3);
  EXPECT_LE(rig.publish(4), 0.06);
  // Version 4 is not committed: its receivers still serve 3, the senders' base is 4.
  for (const auto& member : rig.group->members) member->abort(4, "a replica did not get it");
  change_words(rig.weights, 2, 0.03, 4);
  EXPECT_EQ(rig.publish(5), 1.0);
  EXPECT_EQ(rig.delta_peers, 0u);
  rig.group->commit(5);
  change_words(rig.weights, 2, 0.03, 5);
  EXPECT_LE(rig.publish(6), 0.06);
}

TEST_P(PublishDeltaWires, PlainAndCodedChunksMixInATransfer) {
  DeltaRig rig(GetParam(), 1 << 10);
  rig.publish(1);
  rig.group->commit(1);
  for (uint64_t version = 2; version < 5; ++version) {
    for (Bytes& shard : rig.weights)  // in stretches: all of the words, or few
      for (size_t at = 0; at < shard.size(); at += 1 << 10) {
        std::vector<Bytes> part{Bytes(
            shard.begin() + static_cast<std::ptrdiff_t>(at),
            shard.begin() + static_cast<std::ptrdiff_t>(std::min(shard.size(), at + (1 << 10))))};
        Rng choice = Rng(version).fork(std::to_integer<uint64_t>(part[0][0]));
        change_words(part, 2, choice.below(2) == 0 ? 1.0 : 0.02, version);
        std::ranges::copy(part[0], shard.begin() + static_cast<std::ptrdiff_t>(at));
      }
    double share = rig.publish(version);
    EXPECT_GT(share, 0.1);
    EXPECT_LT(share, 0.9);
    rig.group->commit(version);
  }
}

INSTANTIATE_TEST_SUITE_P(Wires, PublishDeltaWires, ::testing::Values("inproc", "shm", "tcp"),
                         [](const auto& x) { return std::string(x.param); });

TEST(PublishDelta, AServedVersionThatChangedUnderfootIsFound) {  // PUBLISH-1
  DeltaRig rig("inproc");
  rig.publish(1);
  rig.group->commit(1);
  rig.group->served[2][100] ^= std::byte{1};
  change_words(rig.weights, 2, 0.03, 1);
  rig.group->before = rig.weights;
  rig.group->begin(2);
  auto results = rig.group->wait(2);
  ASSERT_FALSE(results[2]);
  EXPECT_EQ(results[2].error().code, Errc::corrupt) << results[2].error().to_string();
}

}  // namespace
}  // namespace cohort::publish
