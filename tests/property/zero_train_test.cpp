// TRAIN-3: sharded training gives the same bits for any number of ranks (threads as ranks), any
// ZeRO stage, offload and swap; TRAIN-2 on every rank alike; bytes on the card.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/compute/train/gradient_norm.hpp"
#include "runtime/compute/train/zero_layout.hpp"
#include "runtime/plan/estimate/memory_model.hpp"
#include "runtime/plan/reshard/reshard_shards.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/train_outcome.hpp"

namespace cohort::compute {
namespace {

using tests::cross_entropy;
using tests::expect_failures_change_nothing;
using tests::group_options;
using tests::on_threads;
using tests::random_samples;
using tests::SampleSet;
using tests::tiny_options;
using tests::TrainOutcome;
using tests::TrainRig;

struct Case {
  int ranks = 1, stage = 0;
  bool offload_optimizer = false, swap = false, offload_params = false, is_per_card = false;
  int threads = 1;
  std::string name() const {
    return fmt::format("{} ranks, stage {}{}{}{}{}, {} threads", ranks, stage,
                       offload_optimizer ? ", offload_optimizer" : "", swap ? ", swap" : "",
                       offload_params ? ", offload_params" : "", is_per_card ? ", per_card" : "",
                       threads);
  }
};

void set_zero(TrainEngineOptions& options, const Case& x, Collectives* group) {
  options.threads = x.threads;
  options.zero = {group,
                  x.stage,
                  x.is_per_card ? GradientReduce::per_card : GradientReduce::ordered,
                  x.offload_optimizer,
                  x.offload_params,
                  x.swap};
}

void on_ranks(int ranks, const std::function<void(int, Collectives*)>& body) {
  tests::on_group(ranks, CollectiveBackend::gloo, body);
}

/// Runs the cases (of one number of ranks) in one group. All ranks must have the same outcomes.
std::vector<TrainOutcome> run_all(const std::vector<Case>& all, TrainEngineOptions options,
                                  const SampleSet& data, int steps = 2) {
  const int ranks = all[0].ranks;
  std::vector<std::vector<TrainOutcome>> outcomes(static_cast<size_t>(ranks));
  on_ranks(ranks, [&](int rank, Collectives* group) {
    for (const Case& x : all) {
      TrainEngineOptions mine = options;
      set_zero(mine, x, group);
      TrainRig rig(mine);
      rig.onload_all();
      outcomes[static_cast<size_t>(rank)].push_back(tests::train(*rig.engine, data, steps));
    }
  });
  for (const auto& other : outcomes)
    for (size_t i = 0; i < all.size(); ++i)
      EXPECT_TRUE(other[i] == outcomes[0][i]) << all[i].name();
  return outcomes[0];
}

TrainOutcome run(const Case& x, const TrainEngineOptions& options, const SampleSet& data) {
  return run_all({x}, options, data)[0];
}

std::vector<Case> of_ranks(std::vector<Case> all, int ranks) {
  std::erase_if(all, [&](const Case& x) { return x.ranks != ranks; });
  return all;
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (int ranks : {1, 2, 4})
    for (int stage : {0, 1, 2, 3})
      for (int optimizer : {0, 1, 2})
        for (bool params : {false, true})
          out.push_back({ranks, stage, optimizer == 1, optimizer == 2, params, false,
                         1 + (ranks + stage + optimizer) % 2});
  return out;
}

TEST(ZeroTrain, BitsDoNotDependOnRanksStageOffloadOrSwap) {  // TRAIN-3
  const SampleSet data = random_samples(30, 1);
  TrainEngineOptions options = tiny_options();
  options.optimizer.weight_decay = 0.1;
  options.optimizer.max_grad_norm = 0.05;  // clips in every step
  const TrainOutcome expected = run({}, options, data);
  ASSERT_GT(expected.numbers[1], 0.05);
  for (int ranks : {1, 2, 4}) {
    const std::vector<Case> all = of_ranks(cases(), ranks);
    const std::vector<TrainOutcome> outcomes = run_all(all, options, data);
    for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(outcomes[i] == expected) << all[i].name();
  }
}

TEST(ZeroTrain, UntiedOddSizesAndFewMicroBatches) {  // TRAIN-3: parts that are short or empty
  TrainEngineOptions options = tiny_options();
  options.model.tie_word_embeddings = false;
  options.model.vocab_size = 7;
  options.model.hidden_size = 6;
  options.model.num_attention_heads = 1;
  options.model.num_key_value_heads = 1;
  options.model.head_dim = 2;
  options.model.intermediate_size = 5;
  const SampleSet data = random_samples(5, 2, 7);
  for (int64_t rows : {int64_t{1}, int64_t{1} << 20}) {  // 5 micro-batches, and 1: idle ranks
    options.micro_batch_tokens = rows;
    const TrainOutcome expected = run({}, options, data);
    for (int stage : {0, 1, 2, 3})
      for (int ranks : {2, 4})
        EXPECT_TRUE(run({ranks, stage}, options, data) == expected) << ranks << " " << stage;
  }
}

TEST(ZeroTrain, Bf16WithItsMasterCut) {  // TRAIN-3
  TrainEngineOptions options = tiny_options();
  options.model.dtype = tensor::Dtype::bf16;
  const SampleSet data = random_samples(30, 3);
  const TrainOutcome expected = run({}, options, data);
  for (const Case& x : std::vector<Case>{{1, 1},
                                         {1, 3},
                                         {2, 0},
                                         {2, 1},
                                         {4, 2},
                                         {4, 3},
                                         {2, 2, true},
                                         {4, 3, true, false, true},
                                         {2, 1, false, true},
                                         {2, 3, false, true},
                                         {1, 0, true, false, true},
                                         {2, 2, false, false, true}})
    EXPECT_TRUE(run(x, options, data) == expected) << x.name();
}

TEST(ZeroTrain, PerCardSumsAreCloseAndRepeat) {
  const SampleSet data = random_samples(60, 4);
  TrainEngineOptions options = tiny_options();
  options.optimizer.eps = 1;  // keeps AdamW from blowing a zero gradient's rounding up to +-1
  const TrainOutcome ordered = run({}, options, data);
  for (int stage : {0, 1}) {
    const Case x{4, stage, false, false, false, true};
    const TrainOutcome once = run(x, options, data), again = run(x, options, data);
    EXPECT_TRUE(once == again);
    ASSERT_EQ(once.numbers.size(), ordered.numbers.size());
    for (size_t i = 0; i < once.numbers.size(); ++i)
      EXPECT_NEAR(once.numbers[i], ordered.numbers[i], 1e-6 * (1 + std::abs(ordered.numbers[i])));
  }
}

TEST(ZeroTrain, AccumulationSplitsAgreeToRounding) {  // acceptance: <= 1e-6 relative
  const SampleSet data = random_samples(60, 5);
  std::vector<TrainOutcome> outcomes;
  for (int64_t rows : {64, 256, 1 << 20}) {
    TrainEngineOptions options = tiny_options();
    options.micro_batch_tokens = rows;
    options.optimizer.eps = 1;
    outcomes.push_back(run({2, 2}, options, data));
  }
  for (const TrainOutcome& other : outcomes)
    for (size_t i = 0; i < other.numbers.size(); ++i)
      EXPECT_NEAR(other.numbers[i], outcomes[0].numbers[i],
                  1e-6 * (1 + std::abs(outcomes[0].numbers[i])));
}

TEST(ZeroTrain, WhatFailsInOneRankFailsInAllAndChangesNothing) {  // TRAIN-2
  const SampleSet data = random_samples(30, 6);
  for (int stage : {0, 2, 3}) {
    auto rendezvous = Rendezvous::in_process();
    on_threads(3, [&](int rank) {
      auto group = Collectives::join(group_options(rank, 3, "g", rendezvous)).value();
      TrainEngineOptions options = tiny_options();
      set_zero(options, {3, stage, false, false, false, false, 2}, group.get());
      TrainRig rig(options);
      auto early = rig.engine->step(data.samples, cross_entropy, 1e-2);
      EXPECT_EQ(early.error().code, Errc::placement);
      rig.onload_all();
      expect_failures_change_nothing(*rig.engine, data);
      // other samples on one rank are refused before anything is computed
      auto other =
          rig.engine->step(std::span(data.samples).first(rank == 1 ? 5 : 6), cross_entropy, 1e-2);
      EXPECT_EQ(other.error().code, Errc::invalid_argument);
      EXPECT_TRUE(rig.engine->step(data.samples, cross_entropy, 1e-2).has_value());
    });
  }
}

/// What a card of the case holds at most in a step, by plan.
struct PlannedBytes {
  uint64_t objects = 0, buffers = 0;
  uint64_t all() const { return objects + buffers; }
};
PlannedBytes planned(const Case& x, const ModelConfig& model) {
  plan::TrainMemory memory = plan::builtin_train_memory(tensor::size_of(model.dtype));
  memory.shards = static_cast<uint64_t>(x.ranks);
  memory.zero_stage = static_cast<uint32_t>(x.stage);
  memory.offload_optimizer = x.offload_optimizer;
  memory.offload_params = x.offload_params;
  memory.swap_optimizer = x.swap;
  PlannedBytes out;
  for (auto [object, bytes] : plan::train_bytes(model, memory)) out.objects += bytes;
  const plan::TrainBuffers buffers = plan::train_buffers(model, memory);
  out.buffers = buffers.exchange + buffers.gathered;
  return out;
}

TEST(ZeroTrain, BytesOnEveryCardAreThePlans) {  // acceptance: within 10 %; here to the byte
  const SampleSet data = random_samples(6, 8);
  for (int ranks : {1, 2, 4})
    on_ranks(ranks, [&](int, Collectives* group) {
      for (const Case& x : of_ranks(cases(), ranks)) {
        TrainEngineOptions mine = tiny_options();
        mine.model.dtype = x.threads % 2 == 0 ? tensor::Dtype::f32 : tensor::Dtype::bf16;
        mine.model.tie_word_embeddings = x.stage % 2 == 0;
        mine.model.intermediate_size = 37;  // parts that do not divide
        set_zero(mine, x, group);
        TrainRig rig(mine);
        rig.onload_all();
        const PlannedBytes plan = planned(x, mine.model);
        EXPECT_EQ(rig.card.bytes_in_use(), plan.objects) << x.name();
        rig.engine->step(data.samples, cross_entropy, 1e-2).value();
        EXPECT_EQ(rig.card.peak_bytes(), plan.all()) << x.name();
        EXPECT_EQ(rig.card.bytes_in_use(), plan.objects) << x.name();
      }
    });
}

TEST(ZeroTrain, StagesTakeLessAndLess) {  // of a model whose layers outweigh a unit
  ModelConfig model = tests::tiny_model();
  model.num_hidden_layers = 64;
  for (auto dtype : {tensor::Dtype::f32, tensor::Dtype::bf16}) {
    model.dtype = dtype;
    uint64_t before = UINT64_MAX;
    for (int stage : {0, 1, 2, 3}) {
      const uint64_t bytes = planned({4, stage}, model).all();
      EXPECT_LT(bytes, before) << stage;
      before = bytes;
    }
    EXPECT_LT(planned({4, 3}, model).all(), planned({1, 0}, model).all() * 30 / 100);
    EXPECT_LT(planned({4, 3, true, false, true}, model).all(), planned({4, 3}, model).all() / 2);
  }
}

TEST(ZeroTrain, ACardThatIsTooSmallIsToldToAllRanks) {
  const SampleSet data = random_samples(12, 9);
  auto rendezvous = Rendezvous::in_process();
  on_threads(2, [&](int rank) {
    auto group = Collectives::join(group_options(rank, 2, "g", rendezvous)).value();
    TrainEngineOptions options = tiny_options();
    const Case x{2, 3};
    set_zero(options, x, group.get());
    const PlannedBytes plan = planned(x, options.model);
    TrainRig rig(options, rank == 1 ? plan.all() - 1 : plan.all());
    rig.onload_all();
    auto result = rig.engine->step(data.samples, cross_entropy, 1e-2);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::capacity);
    EXPECT_NE(result.error().detail.find("rank 1"), std::string::npos) << result.error().detail;
    EXPECT_EQ(rig.card.bytes_in_use(), plan.objects);
  });
}

TEST(ZeroTrain, ShardsAreTheCutOfThePlanner) {  // ZERO-1: what a publisher addresses
  TrainEngineOptions options = tiny_options();
  const plan::ModelTensors tensors = plan::reshard_tensors_of(options.model, 4);
  plan::ShardLayout layout;
  layout.dp = 4;
  layout.zero_stage = 3;
  for (uint32_t rank = 0; rank < 4; ++rank) layout.ranks.push_back(CardId{rank});
  const plan::Shards cut(tensors, layout);
  TrainRig whole(options);
  const std::vector<ParameterShard> all = whole.engine->shards();
  ASSERT_EQ(all.size(), whole.engine->layout().specs.size());
  auto rendezvous = Rendezvous::in_process();
  on_threads(4, [&](int rank) {
    auto group = Collectives::join(group_options(rank, 4, "g", rendezvous)).value();
    TrainEngineOptions mine = options;
    set_zero(mine, {4, 3}, group.get());
    TrainRig rig(mine);
    for (const ParameterShard& shard : rig.engine->shards()) {
      size_t spec = 0;
      while (all[spec].name != shard.name) ++spec;
      EXPECT_EQ(shard.bytes.size(), static_cast<size_t>(shard.end - shard.begin) * sizeof(float));
      EXPECT_EQ(
          std::memcmp(shard.bytes.data(),
                      all[spec].bytes.data() + static_cast<size_t>(shard.begin) * sizeof(float),
                      shard.bytes.size()),
          0)
          << shard.name;
      // families of a layer: norm, q, k, v, their biases, o, norm, gate with up, down
      constexpr size_t k_layer_tensors = 12;
      size_t family = spec;
      int64_t before = 0;
      if (spec > 0) {
        const size_t at = (spec - 1) % k_layer_tensors;
        family = spec + 1 == all.size() ? tensors.tensors.size() - 1 : 1 + (at > 9 ? at - 1 : at);
        if (at == 10) before = all[spec - 1].end;
      }
      const plan::Interval planned_part =
          cut.cut(tensors.tensors[family], static_cast<uint32_t>(rank));
      const int64_t count = all[spec].end;
      EXPECT_EQ(shard.begin,
                std::clamp<int64_t>(static_cast<int64_t>(planned_part.begin) - before, 0, count))
          << shard.name;
      EXPECT_EQ(shard.end,
                std::clamp<int64_t>(static_cast<int64_t>(planned_part.end) - before, 0, count))
          << shard.name;
    }
    // what stage 3 holds is what stage 0 has there, and it takes its part of the whole back
    for (const ParameterShard& shard : rig.engine->shards()) {
      const auto same = std::ranges::find(all, shard.name, &ParameterShard::name);
      ASSERT_NE(same, all.end());
      const auto begin = static_cast<size_t>(shard.begin) * sizeof(float);
      EXPECT_TRUE(std::ranges::equal(shard.bytes, same->bytes.subspan(begin, shard.bytes.size())))
          << shard.name;
    }
    const uint64_t hash = rig.engine->param_hash();
    EXPECT_EQ(hash, whole.engine->param_hash());
    const std::vector<std::byte> zeros(rig.engine->weight_bytes());
    ASSERT_TRUE(rig.engine->load_weights(0, zeros).has_value());
    EXPECT_NE(rig.engine->param_hash(), hash);
    ASSERT_TRUE(rig.engine->load_weights(0, tests::flat_weights(*whole.engine)).has_value());
    EXPECT_EQ(rig.engine->param_hash(), hash);
  });
}

TEST(ZeroLayout, PartsCoverEachTensorOnceAndUnitsAreConsecutive) {  // ZERO-1, ZERO-2, ZERO-3
  ModelConfig model = tests::tiny_model();
  for (bool is_tied : {true, false})
    for (int ranks : {1, 2, 3, 4, 8, 50}) {
      model.tie_word_embeddings = is_tied;
      const ParameterLayout layout = layout_of(model);
      const ZeroLayout zero(layout, ranks);
      ASSERT_EQ(zero.units().size(), 4u);
      int64_t flat = 0, shard = 0;
      for (const ZeroUnit& unit : zero.units()) {
        EXPECT_EQ(unit.begin, flat);
        EXPECT_EQ(unit.shard_begin, shard);
        flat = unit.end;
        shard += unit.shard_count;
        for (size_t spec = unit.first_spec; spec < unit.end_spec; ++spec) {
          int64_t next = 0;
          for (int rank = 0; rank < ranks; ++rank) {
            EXPECT_EQ(zero.part(spec, rank).begin, next);
            next = zero.part(spec, rank).end;
            EXPECT_LE(zero.shard_offset(spec, rank) + zero.part(spec, rank).count(),
                      unit.shard_begin + unit.shard_count);
          }
          EXPECT_EQ(next, layout.specs[spec].count);
        }
      }
      EXPECT_EQ(flat, layout.total_elements);
      EXPECT_LE(shard, zero.shard_elements());
    }
}

TEST(GradientNorm, IsTheSameForEveryCutAndExact) {  // NORM-1
  Rng rng(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> values(1 + rng.below(5000));
    const double spread = rng.uniform() * 60;
    for (float& x : values)
      x = static_cast<float>((2 * rng.uniform() - 1) * std::pow(2.0, -spread * rng.uniform()));
    const uint32_t largest = largest_magnitude(values);
    const SquareSum whole = sum_of_squares(values, largest);
    SquareSum sum;
    for (size_t at = 0; at < values.size();) {
      const size_t count = std::min<size_t>(1 + rng.below(700), values.size() - at);
      sum += sum_of_squares(std::span(values).subspan(at, count), largest);
      at += count;
    }
    EXPECT_EQ(sum, whole);
    long double exact = 0;
    for (float x : values) exact += static_cast<long double>(x) * static_cast<long double>(x);
    const auto expected = static_cast<double>(std::sqrt(exact));
    EXPECT_NEAR(norm_of(whole, largest), expected, 1e-11 * expected);
  }
  EXPECT_EQ(norm_of(sum_of_squares({}, 0), 0), 0.0);
  const std::vector<float> three_four = {3, 4};
  EXPECT_EQ(norm_of(sum_of_squares(three_four, largest_magnitude(three_four)),
                    largest_magnitude(three_four)),
            5.0);
  EXPECT_GE(largest_magnitude(std::vector<float>{1, NAN}), k_not_finite);
  EXPECT_GE(largest_magnitude(std::vector<float>{-INFINITY, 2}), k_not_finite);
  const std::vector<float> tiny = {1e-40f, -1e-40f};
  EXPECT_NEAR(norm_of(sum_of_squares(tiny, largest_magnitude(tiny)), largest_magnitude(tiny)),
              1e-40 * std::sqrt(2.0), 1e-45);
}

}  // namespace
}  // namespace cohort::compute
