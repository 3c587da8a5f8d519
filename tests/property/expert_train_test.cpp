// TRAIN-3 with routed experts cut over ranks (threads as ranks): the bits of one rank for any
// number of ways, ranks and any ZeRO stage below 3; failures end alike everywhere; checkpoints of
// one cut load in another.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include "runtime/compute/collectives/collectives.hpp"
#include "runtime/compute/train/expert_cut.hpp"
#include "runtime/compute/train/zero_layout.hpp"
#include "runtime/plan/estimate/memory_model.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/train_outcome.hpp"

namespace cohort::compute {
namespace {

namespace fs = std::filesystem;
using tests::cross_entropy;
using tests::expect_failures_change_nothing;
using tests::moe_model;
using tests::policy_gradient;
using tests::random_samples;
using tests::SampleSet;
using tests::TrainOutcome;
using tests::TrainRig;

ModelConfig shared_expert_model() {
  ModelConfig config = moe_model();
  config.family = "deepseek_v3";
  config.moe = tests::deepseek_experts(5, 7);
  return config;
}

struct Case {
  int ranks = 1, ways = 1, stage = 0, threads = 1;
  bool offload_optimizer = false, swap = false, is_per_card = false;
  std::vector<std::string> targets = {};  // of an adapter; empty: every weight is trained
  std::string name() const {
    return fmt::format("{} ranks, experts over {}, stage {}, {} threads{}{}{}{}", ranks, ways,
                       stage, threads, offload_optimizer ? ", offload_optimizer" : "",
                       swap ? ", swap" : "", is_per_card ? ", per_card" : "",
                       targets.empty() ? "" : ", adapter of " + targets.front());
  }
  /// The same with an adapter.
  Case over(std::vector<std::string> modules) const {
    Case x = *this;
    x.targets = std::move(modules);
    return x;
  }
};

TrainEngineOptions options_of(const Case& x, const ModelConfig& model, Collectives* group) {
  TrainEngineOptions options = tests::tiny_options();
  options.model = model;
  options.threads = x.threads;
  options.optimizer.weight_decay = 0.1;
  options.optimizer.max_grad_norm = 0.05;  // clips in every step
  options.zero = {group,
                  x.stage,
                  x.is_per_card ? GradientReduce::per_card : GradientReduce::ordered,
                  x.offload_optimizer,
                  false,
                  x.swap,
                  x.ways};
  if (!x.targets.empty()) options.lora = model::LoraShape{3, 6, false, x.targets};
  return options;
}

void on_ranks(int ranks, const std::function<void(int, Collectives*)>& body) {
  tests::on_group(ranks, CollectiveBackend::memory, body);
}

TrainOutcome run(const Case& x, const ModelConfig& model, const SampleSet& data, int steps = 2) {
  std::vector<TrainOutcome> outcomes(static_cast<size_t>(x.ranks));
  on_ranks(x.ranks, [&](int rank, Collectives* group) {
    TrainRig rig(options_of(x, model, group));
    rig.onload_all();
    outcomes[static_cast<size_t>(rank)] = tests::train(*rig.engine, data, steps);
  });
  for (const TrainOutcome& other : outcomes) EXPECT_TRUE(other == outcomes[0]) << x.name();
  return outcomes[0];
}

TEST(ExpertTrain, BitsDoNotDependOnWaysRanksOrStage) {  // TRAIN-3, EP-4
  const SampleSet data = random_samples(30, 1);
  const TrainOutcome expected = run({}, moe_model(), data);
  ASSERT_EQ(expected.numbers.size(), 4u);
  ASSERT_GT(expected.numbers[1], 0.05);
  ASSERT_NE(expected.hashes[0], expected.hashes[2]);
  for (const int ranks : {2, 4})
    for (const int ways : {1, 2, 4})
      for (const int stage : {0, 1, 2}) {
        if (ways > ranks) continue;
        const Case x{ranks, ways, stage, 1 + stage % 2};
        EXPECT_TRUE(run(x, moe_model(), data) == expected) << x.name();
      }
  EXPECT_TRUE(run({4, 2, 1, 1, true}, moe_model(), data) == expected);
  EXPECT_TRUE(run({4, 2, 1, 1, false, true}, moe_model(), data) == expected);
}

TEST(ExpertTrain, SharedExpertsAndFewMicroBatches) {  // idle ranks serve; a way per expert
  const SampleSet data = random_samples(5, 2);
  const TrainOutcome expected = run({}, shared_expert_model(), data);
  for (const Case& x : std::vector<Case>{{2, 2}, {4, 4, 1}, {8, 8}, {8, 2, 2}})
    EXPECT_TRUE(run(x, shared_expert_model(), data) == expected) << x.name();
}

TEST(ExpertTrain, Bf16WithItsMasterCut) {  // TRAIN-3
  ModelConfig model = moe_model();
  model.dtype = tensor::Dtype::bf16;
  const SampleSet data = random_samples(20, 3);
  const TrainOutcome expected = run({}, model, data);
  for (const Case& x : std::vector<Case>{{2, 2}, {2, 2, 1}, {4, 2, 2}, {4, 4, 1, 2}})
    EXPECT_TRUE(run(x, model, data) == expected) << x.name();
}

/// Adapters of every layer; of experts alone, before which nothing is trained; of none of them.
TEST(ExpertTrain, AdaptersHaveTheBitsOfOneRank) {  // TRAIN-3, EP-4
  const SampleSet data = random_samples(20, 10);
  for (const ModelConfig& model : {moe_model(), shared_expert_model()})
    for (const std::vector<std::string>& targets : std::vector<std::vector<std::string>>{
             {"all-linear"}, {"down_proj", "gate_proj"}, {"q_proj"}}) {
      const TrainOutcome expected = run(Case{}.over(targets), model, data, 3);
      ASSERT_NE(expected.hashes[0], expected.hashes[3]);
      for (const Case& x :
           std::vector<Case>{{2, 1, 1}, {2, 2}, {4, 2, 1}, {4, 4, 2, 2}, {4, 2, 2, 1, true}})
        EXPECT_TRUE(run(x.over(targets), model, data, 3) == expected) << x.over(targets).name();
    }
}

TEST(ExpertTrain, Bf16UnderAnAdapter) {  // TRAIN-3
  ModelConfig model = moe_model();
  model.dtype = tensor::Dtype::bf16;
  const SampleSet data = random_samples(12, 3);
  const TrainOutcome expected = run(Case{}.over({"all-linear"}), model, data);
  for (const Case& x : std::vector<Case>{{2, 2}, {4, 2, 2}})
    EXPECT_TRUE(run(x.over({"all-linear"}), model, data) == expected) << x.name();
}

/// With its adapter off the model is what it was, each expert on its own card.
TEST(ExpertTrain, AnAdapterThatIsOffChangesNothing) {  // LORA-2
  const SampleSet data = random_samples(10, 11);
  const auto log_probs = [&](const TrainRig& rig, AdapterUse use) {
    std::vector<std::vector<float>> out;
    EXPECT_TRUE(rig.engine->log_probs(data.samples, out, use).has_value());
    return out;
  };
  TrainRig whole(options_of({}, moe_model(), nullptr));
  whole.onload_all();
  const auto expected = log_probs(whole, AdapterUse::on);
  on_ranks(4, [&](int, Collectives* group) {
    TrainRig rig(options_of(Case{4, 2}.over({"all-linear"}), moe_model(), group));
    rig.onload_all();
    EXPECT_EQ(log_probs(rig, AdapterUse::on), expected);
    rig.engine->step(data.samples, policy_gradient, 1e-2).value();
    EXPECT_NE(log_probs(rig, AdapterUse::on), expected);
    EXPECT_EQ(log_probs(rig, AdapterUse::off), expected);
  });
}

TEST(ExpertTrain, PerCardSumsAreCloseAndRepeat) {
  const SampleSet data = random_samples(40, 4);
  const TrainOutcome ordered = run({}, moe_model(), data, 1);
  for (const Case& x :
       std::vector<Case>{{4, 2, 0, 1, false, false, true}, {2, 2, 1, 1, false, false, true}}) {
    const TrainOutcome once = run(x, moe_model(), data, 1), again = run(x, moe_model(), data, 1);
    EXPECT_TRUE(once == again) << x.name();
    for (size_t i = 0; i < once.numbers.size(); ++i)
      EXPECT_NEAR(once.numbers[i], ordered.numbers[i], 1e-6 * (1 + std::abs(ordered.numbers[i])));
  }
}

TEST(ExpertTrain, ARankHoldsItsExpertsOnly) {
  const ModelConfig model = moe_model();
  const TrainRig whole(options_of({}, model, nullptr));
  on_ranks(4, [&](int rank, Collectives* group) {
    TrainRig rig(options_of({4, 2}, model, group));
    rig.onload_all();
    std::set<int64_t> held;
    for (const ParameterSpec& spec : rig.engine->layout().specs)
      if (spec.expert >= 0) held.insert(spec.expert);
    EXPECT_EQ(held, rank % 2 == 0 ? (std::set<int64_t>{0, 1}) : (std::set<int64_t>{2, 3}));
    EXPECT_EQ(rig.engine->weight_bytes(), whole.engine->weight_bytes());
    EXPECT_LT(rig.engine->object_bytes(TrainObject::train_params), rig.engine->weight_bytes());
    // Every tensor has the start that it has in one rank.
    for (const ParameterShard& shard : rig.engine->shards()) {
      const auto all = whole.engine->shards();
      const auto same = std::ranges::find(all, shard.name, &ParameterShard::name);
      ASSERT_NE(same, all.end()) << shard.name;
      EXPECT_TRUE(std::ranges::equal(shard.bytes, same->bytes)) << shard.name;
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

TEST(ExpertTrain, BytesOnEveryCardAreThePlans) {
  const SampleSet data = random_samples(6, 9);
  for (ModelConfig model : {moe_model(), shared_expert_model()})
    for (const Case& x : {Case{2, 2}, Case{4, 2, 1}, Case{4, 2, 2}, Case{4, 4, 1, 1, true},
                          Case{4, 2, 1}.over({"all-linear"}), Case{2, 2, 2}.over({"up_proj"})}) {
      model.dtype = x.stage == 1 ? tensor::Dtype::bf16 : tensor::Dtype::f32;
      plan::TrainMemory memory = plan::builtin_train_memory(tensor::size_of(model.dtype));
      memory.shards = static_cast<uint64_t>(x.ranks);
      memory.zero_stage = static_cast<uint32_t>(x.stage);
      memory.offload_optimizer = x.offload_optimizer;
      memory.expert_ways = static_cast<uint64_t>(x.ways);
      if (const auto lora = options_of(x, model, nullptr).lora)
        memory.lora = model::resolve_lora(model, *lora).value();
      uint64_t objects = 0;
      for (const auto& [object, bytes] : plan::train_bytes(model, memory)) objects += bytes;
      const uint64_t exchange = plan::train_buffers(model, memory).exchange;
      on_ranks(x.ranks, [&](int, Collectives* group) {
        TrainRig rig(options_of(x, model, group));
        rig.onload_all();
        EXPECT_EQ(rig.card.bytes_in_use(), objects) << x.name();
        rig.engine->step(data.samples, cross_entropy, 1e-2).value();
        EXPECT_EQ(rig.card.peak_bytes(), objects + exchange) << x.name();
        EXPECT_EQ(rig.card.bytes_in_use(), objects) << x.name();
      });
    }
}

TEST(ExpertTrain, WhatFailsInOneRankFailsInAllAndChangesNothing) {  // TRAIN-2, EP-5
  const SampleSet data = random_samples(30, 6);
  for (const int stage : {0, 2})
    on_ranks(4, [&](int, Collectives* group) {
      TrainRig rig(options_of({4, 2, stage}, moe_model(), group));
      EXPECT_EQ(rig.engine->step(data.samples, cross_entropy, 1e-2).error().code, Errc::placement);
      rig.onload_all();
      expect_failures_change_nothing(*rig.engine, data);
      auto good = rig.engine->step(data.samples, cross_entropy, 1e-2);
      EXPECT_TRUE(good) << good.error().detail;
    });
}

TEST(ExpertTrain, ARankThatIsGoneEndsTheStepOfAll) {
  const SampleSet data = random_samples(30, 7);
  on_ranks(4, [&](int rank, Collectives* group) {
    TrainRig rig(options_of({4, 2}, moe_model(), group));
    rig.onload_all();
    const auto gone = [&](const StepCounts& counts) -> LossFunction {
      return
          [group, inner = cross_entropy(counts)](const MicroBatch& batch, const MicroOutputs& out) {
            group->abort("the process was killed");
            return inner(batch, out);
          };
    };
    const auto report = rank == 2 ? rig.engine->step(data.samples, gone, 1e-2)
                                  : rig.engine->step(data.samples, cross_entropy, 1e-2);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, rank == 2 ? Errc::cancelled : Errc::closed)
        << report.error().detail;
    EXPECT_NE(report.error().detail.find("the process was killed"), std::string::npos)
        << report.error().detail;
  });
}

void expect_checkpoints_load(const std::vector<Case>& cuts) {
  const SampleSet data = random_samples(20, 8);
  const fs::path folder =
      fs::temp_directory_path() / fmt::format("cohort_expert_train_{}", ::getpid());
  fs::create_directories(folder);
  const TrainOutcome expected = run(cuts.front(), moe_model(), data, 2);
  for (size_t i = 0; i < cuts.size(); ++i)
    on_ranks(cuts[i].ranks, [&](int, Collectives* group) {
      TrainRig rig(options_of(cuts[i], moe_model(), group));
      rig.onload_all();
      rig.engine->step(data.samples, policy_gradient, 1e-2).value();
      const auto saved = rig.engine->save(folder / std::to_string(i));
      EXPECT_TRUE(saved) << saved.error().detail;
    });
  for (size_t from = 0; from < cuts.size(); ++from)
    for (const Case& to : cuts)
      on_ranks(to.ranks, [&](int, Collectives* group) {
        TrainRig rig(options_of(to, moe_model(), group));
        rig.onload_all();
        const auto loaded = rig.engine->load(folder / std::to_string(from));
        ASSERT_TRUE(loaded) << loaded.error().detail;
        EXPECT_EQ(rig.engine->param_hash(), expected.hashes[1]) << from << " to " << to.name();
        EXPECT_TRUE(rig.engine->step(data.samples, policy_gradient, 1e-2).has_value());
        EXPECT_EQ(rig.engine->param_hash(), expected.hashes[2]) << from << " to " << to.name();
      });
  fs::remove_all(folder);
}

TEST(ExpertTrain, CheckpointsOfOneCutLoadInAnother) {
  expect_checkpoints_load({{1, 1}, {2, 2, 1}, {4, 2, 0}, {4, 4, 2}, {2, 1, 1}});
}

TEST(ExpertTrain, AdaptersOfOneCutLoadInAnother) {
  std::vector<Case> cuts = {{1, 1}, {2, 2, 1}, {4, 2, 0}, {4, 4, 2}};
  for (Case& cut : cuts) cut.targets = {"all-linear"};
  expect_checkpoints_load(cuts);
}

/// The hash of the model under an adapter is that of all experts, so another model is found.
TEST(ExpertTrain, AnAdapterOverAnotherModelIsRefused) {
  const fs::path folder =
      fs::temp_directory_path() / fmt::format("cohort_expert_adapter_{}", ::getpid());
  const auto lora = [](int ranks, int ways) { return Case{ranks, ways}.over({"up_proj"}); };
  EXPECT_TRUE(TrainRig(options_of(lora(1, 1), moe_model(), nullptr)).engine->save(folder));
  on_ranks(2, [&](int, Collectives* group) {
    TrainEngineOptions options = options_of(lora(2, 2), moe_model(), group);
    EXPECT_TRUE(TrainRig(options).engine->load(folder).has_value());
    options.seed = 6;
    const auto over = TrainRig(options).engine->load(folder);
    ASSERT_FALSE(over);
    EXPECT_NE(over.error().detail.find("another model"), std::string::npos) << over.error().detail;
  });
  fs::remove_all(folder);
}

TEST(ExpertTrain, WhatCannotBeCutIsRefusedByName) {
  struct Bad {
    Case x;
    std::function<void(TrainEngineOptions&)> change;
    const char* message;
  };
  const std::vector<Bad> all = {
      {{4, 4}, [](auto& o) { o.model = tests::tiny_model(); }, "the model has no routed experts"},
      {{4, 3}, [](auto&) {}, "does not divide the 4 experts"},
      {{3, 2}, [](auto&) {}, "does not divide the 3 ranks"},
      {{2, 2, 3}, [](auto&) {}, "ZeRO 3 and offload_params"},
      {{2, 2}, [](auto& o) { o.zero.offload_params = true; }, "ZeRO 3 and offload_params"},
      {{2, 0}, [](auto&) {}, "at least 1"},
  };
  for (const Bad& bad : all)
    on_ranks(bad.x.ranks, [&](int, Collectives* group) {
      CardMemory card(CardId{0}, 64 << 20);
      TrainEngineOptions options = options_of(bad.x, moe_model(), group);
      options.card = &card;
      bad.change(options);
      const auto engine = TrainEngine::create(options);
      ASSERT_FALSE(engine) << bad.message;
      EXPECT_EQ(engine.error().code, Errc::invalid_argument);
      EXPECT_NE(engine.error().detail.find(bad.message), std::string::npos)
          << engine.error().detail;
    });
}

ExpertCut cut_of(const ModelConfig& model, int ways) {
  return {model.moe->num_experts, ways,
          [&](ExpertRange held) { return layout_of(model, model::HeadKind::language, held); }};
}

TEST(ExpertCut, SlotsAreAlikeAndHoldEveryExpertOnce) {  // EP-1, EP-2
  for (const ModelConfig& model : {moe_model(), shared_expert_model()})
    for (const int ways : {2, 4}) {
      const ExpertCut cut = cut_of(model, ways);
      std::vector<int> held(cut.whole().specs.size());
      const ParameterLayout first = cut.layout_of_slot(0);
      for (int slot = 0; slot < ways; ++slot) {
        const ParameterLayout layout = cut.layout_of_slot(slot);
        ASSERT_EQ(layout.specs.size(), first.specs.size());
        EXPECT_EQ(layout.total_elements, first.total_elements);
        for (size_t spec = 0; spec < layout.specs.size(); ++spec) {
          const ParameterSpec& whole = cut.whole().specs[cut.whole_spec(slot, spec)];
          EXPECT_EQ(layout.specs[spec].name, whole.name);
          EXPECT_EQ(layout.specs[spec].shape, whole.shape);
          EXPECT_EQ(layout.specs[spec].offset, first.specs[spec].offset);
          held[cut.whole_spec(slot, spec)] += whole.expert >= 0 || slot == 0 ? 1 : 0;
        }
      }
      for (size_t spec = 0; spec < held.size(); ++spec)
        EXPECT_EQ(held[spec], 1) << cut.whole().specs[spec].name;
    }
}

TEST(ExpertCut, PartsOfSharersCoverEachTensorOnce) {  // ZERO-1, ZERO-3, ZERO-6
  const ExpertCut cut = cut_of(shared_expert_model(), 2);
  const ParameterLayout layout = cut.layout_of_slot(1);
  const ZeroLayout zero(layout, 6, 2);
  int64_t flat = 0, shard = 0;
  for (const ZeroUnit& unit : zero.units()) {
    EXPECT_EQ(unit.begin, flat);
    EXPECT_EQ(unit.shard_begin, shard);
    flat = unit.end;
    shard += unit.shard_count;
    const std::vector<int> sharers = zero.sharers(unit, 3);
    EXPECT_EQ(sharers, unit.is_experts ? (std::vector{1, 3, 5}) : (std::vector{0, 1, 2, 3, 4, 5}));
    for (size_t spec = unit.first_spec; spec < unit.end_spec; ++spec) {
      EXPECT_EQ(layout.specs[spec].expert >= 0, unit.is_experts);
      int64_t next = 0;
      for (const int rank : sharers) {
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

}  // namespace
}  // namespace cohort::compute
