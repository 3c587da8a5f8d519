// TRAIN-3: sharded training gives the same bits for any number of ranks (threads as ranks), any
// ZeRO stage, offload and swap; TRAIN-2 on every rank alike; bytes on the card.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "runtime/compute/collectives.hpp"
#include "runtime/compute/gradient_norm.hpp"
#include "runtime/compute/zero_layout.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/train_fixture.hpp"

namespace cohort::compute {
namespace {

using tests::cross_entropy;
using tests::group_options;
using tests::on_threads;
using tests::policy_gradient;
using tests::random_samples;
using tests::SampleSet;
using tests::tiny_options;
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

/// What every rank must report alike.
struct Outcome {
  std::vector<uint64_t> hashes;
  std::vector<double> numbers;  // loss, norm, entropy of each step
  std::vector<std::vector<float>> log_probs;
  bool operator==(const Outcome&) const = default;
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

Outcome train(TrainEngine& engine, const SampleSet& data, int steps) {
  Outcome out;
  for (int i = 0; i < steps; ++i) {
    auto report = engine.step(data.samples, policy_gradient, 1e-2);
    if (!report) ADD_FAILURE() << report.error().to_string();
    if (!report) return out;
    out.numbers.insert(out.numbers.end(), {report->loss, report->grad_norm, report->entropy});
    out.hashes.push_back(engine.param_hash());
  }
  auto done = engine.log_probs(data.samples, out.log_probs);
  if (!done) ADD_FAILURE() << done.error().to_string();
  return out;
}

/// Runs the case; all ranks must have the same outcome, which is returned.
Outcome run(const Case& x, TrainEngineOptions options, const SampleSet& data, int steps = 3) {
  std::vector<Outcome> outcomes(static_cast<size_t>(x.ranks));
  auto rendezvous = Rendezvous::in_process();
  on_threads(x.ranks, [&](int rank) {
    std::unique_ptr<Collectives> group;
    if (x.ranks > 1)
      group = Collectives::join(group_options(rank, x.ranks, "g", rendezvous)).value();
    TrainEngineOptions mine = options;
    set_zero(mine, x, group.get());
    TrainRig rig(mine);
    rig.onload_all();
    outcomes[static_cast<size_t>(rank)] = train(*rig.engine, data, steps);
  });
  for (const Outcome& other : outcomes) EXPECT_TRUE(other == outcomes[0]) << x.name();
  return outcomes[0];
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
  const SampleSet data = random_samples(60, 1);
  TrainEngineOptions options = tiny_options();
  options.optimizer.weight_decay = 0.1;
  options.optimizer.max_grad_norm = 0.05;  // clips in every step
  const Outcome expected = run({}, options, data);
  ASSERT_GT(expected.numbers[1], 0.05);
  for (const Case& x : cases()) EXPECT_TRUE(run(x, options, data) == expected) << x.name();
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
    const Outcome expected = run({}, options, data);
    for (int stage : {0, 1, 2, 3})
      for (int ranks : {2, 4})
        EXPECT_TRUE(run({ranks, stage}, options, data) == expected) << ranks << " " << stage;
  }
}

TEST(ZeroTrain, Bf16WithItsMasterCut) {  // TRAIN-3
  TrainEngineOptions options = tiny_options();
  options.model.dtype = tensor::Dtype::bf16;
  const SampleSet data = random_samples(30, 3);
  const Outcome expected = run({}, options, data);
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
  const Outcome ordered = run({}, options, data);
  for (int stage : {0, 1}) {
    const Case x{4, stage, false, false, false, true};
    const Outcome once = run(x, options, data), again = run(x, options, data);
    EXPECT_TRUE(once == again);
    ASSERT_EQ(once.numbers.size(), ordered.numbers.size());
    for (size_t i = 0; i < once.numbers.size(); ++i)
      EXPECT_NEAR(once.numbers[i], ordered.numbers[i], 1e-6 * (1 + std::abs(ordered.numbers[i])));
  }
}

TEST(ZeroTrain, AccumulationSplitsAgreeToRounding) {  // acceptance: <= 1e-6 relative
  const SampleSet data = random_samples(60, 5);
  std::vector<Outcome> outcomes;
  for (int64_t rows : {64, 256, 1 << 20}) {
    TrainEngineOptions options = tiny_options();
    options.micro_batch_tokens = rows;
    options.optimizer.eps = 1;
    outcomes.push_back(run({2, 2}, options, data));
  }
  for (const Outcome& other : outcomes)
    for (size_t i = 0; i < other.numbers.size(); ++i)
      EXPECT_NEAR(other.numbers[i], outcomes[0].numbers[i],
                  1e-6 * (1 + std::abs(outcomes[0].numbers[i])));
}

LossFunction nan_for_sample_zero(const StepCounts& counts) {
  return [inner = cross_entropy(counts)](const MicroBatch& batch, const MicroOutputs& out) {
    MicroLoss loss = inner(batch, out);
    if (batch.seq_id[0].item<int64_t>() == 0) loss.total = loss.total * NAN;
    return loss;
  };
}

LossFunction throws_for_sample_zero(const StepCounts& counts) {
  return [inner = cross_entropy(counts)](const MicroBatch& batch, const MicroOutputs& out) {
    if (batch.seq_id[0].item<int64_t>() == 0) throw std::runtime_error("no such loss");
    return inner(batch, out);
  };
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
      const uint64_t before = rig.engine->param_hash();
      auto nan = rig.engine->step(data.samples, nan_for_sample_zero, 1e-2);
      ASSERT_FALSE(nan);
      EXPECT_EQ(nan.error().code, Errc::compute);
      EXPECT_NE(nan.error().detail.find("optimizer step 1"), std::string::npos);
      auto thrown = rig.engine->step(data.samples, throws_for_sample_zero, 1e-2);
      ASSERT_FALSE(thrown);
      EXPECT_NE(thrown.error().detail.find("no such loss"), std::string::npos)
          << thrown.error().detail;
      EXPECT_EQ(rig.engine->param_hash(), before);
      // other samples on one rank are refused before anything is computed
      auto other =
          rig.engine->step(std::span(data.samples).first(rank == 1 ? 5 : 6), cross_entropy, 1e-2);
      EXPECT_EQ(other.error().code, Errc::invalid_argument);
      EXPECT_TRUE(rig.engine->step(data.samples, cross_entropy, 1e-2).has_value());
    });
  }
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
            EXPECT_LE(zero.shard_offset(spec) + zero.part(spec, rank).count(),
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
