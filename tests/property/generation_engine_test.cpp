// The generation engine as its actor sees it: weights in two phases, residency, turns, the end.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "runtime/base/clock.hpp"
#include "tests/support/family_models.hpp"
#include "tests/support/generation_rig.hpp"

namespace cohort::tests {
namespace {

using compute::GenerationEngine;
using compute::TurnOutput;
using compute::TurnStop;

std::span<const std::byte> bytes_of(const std::vector<float>& flat) {
  return std::as_bytes(std::span(flat));
}

TEST(GenerationWeights, TheOldVersionIsServedUntilTheNewOneIsCommitted) {  // PLACE-5
  const auto first = random_weights(generation_model(), 1);
  const auto second = random_weights(generation_model(), 2);
  GenerationRig rig;
  rig.serve(first);
  const TurnOutput before = rig.play(turn_request(1, 0, 12, 6));
  EXPECT_EQ(before.versions, std::vector<uint32_t>(6, 1));
  const std::span<std::byte> arrival = rig.engine->begin_weights(2).value().bytes;
  const auto bytes = bytes_of(second);
  ASSERT_EQ(arrival.size(), bytes.size());
  std::ranges::copy(bytes, arrival.begin());
  EXPECT_EQ(rig.engine->commit_weights(3).error().code, Errc::invalid_argument);
  EXPECT_EQ(rig.engine->weight_version(), 1U);
  rig.engine->finish(1);
  TurnOutput same = rig.play(turn_request(1, 0, 12, 6));
  EXPECT_EQ(same.tokens, before.tokens);
  EXPECT_EQ(same.logp, before.logp);
  rig.engine->commit_weights(2).value();
  EXPECT_EQ(rig.engine->weight_version(), 2U);
  EXPECT_EQ(rig.engine->commit_weights(2).error().code, Errc::invalid_argument);  // once
  rig.engine->finish(1);
  auto request = turn_request(1, 1, 12, 6);
  request.append_tokens = turn_request(1, 0, 12, 6).append_tokens;
  const TurnOutput after = rig.play(request);
  EXPECT_EQ(after.versions.front(), 2U);
  EXPECT_NE(after.logp, before.logp);
}

TEST(GenerationWeights, AnArrivalBeginsEmptyAndOneAtATime) {
  GenerationRig rig;
  EXPECT_EQ(rig.engine->commit_weights(1).error().code, Errc::invalid_argument);
  std::ranges::fill(rig.engine->begin_weights(1).value().bytes, std::byte{1});
  const std::span<std::byte> second = rig.engine->begin_weights(2).value().bytes;
  EXPECT_TRUE(std::ranges::all_of(second, [](std::byte x) { return x == std::byte{0}; }));
  EXPECT_EQ(rig.engine->commit_weights(1).error().code, Errc::invalid_argument);
  EXPECT_EQ(rig.engine->weight_version(), 0U);
}

/// Reads parameters of a flat buffer of 2 or 4 bytes an element.
compute::WeightReader reader_of(const std::vector<std::byte>& flat, size_t element) {
  return
      [&flat, element](const compute::ParameterSpec& spec, int64_t begin, std::span<std::byte> to) {
        const size_t at = static_cast<size_t>(spec.offset + begin) * element;
        ASSERT_LE(static_cast<size_t>(begin) * element + to.size(),
                  static_cast<size_t>(spec.count) * element);
        std::ranges::copy(std::span(flat).subspan(at, to.size()), to.begin());
      };
}

TEST(GenerationWeights, ReadStraightToTheCardOrToTheHostTheyAreThoseThatArrive) {
  for (auto dtype : {tensor::Dtype::f32, tensor::Dtype::bf16})
    for (const compute::ModelConfig& model : engine_models(generation_model())) {
      RigOptions options;
      options.model = model;
      options.model.dtype = dtype;
      options.threads_per_lane = 2;
      const auto weights = random_weights(model);
      std::vector<std::byte> flat;
      for (float weight : weights) {
        const uint16_t half = compute::to_bf16(weight);
        const auto bytes = dtype == tensor::Dtype::bf16 ? std::as_bytes(std::span(&half, 1))
                                                        : std::as_bytes(std::span(&weight, 1));
        flat.insert(flat.end(), bytes.begin(), bytes.end());
      }
      GenerationRig arrived(options);
      const TurnOutput expected = arrived.serve(weights).play(turn_request(1, 0, 12, 6));
      for (bool is_on_card : {true, false}) {
        GenerationRig rig(options);
        if (is_on_card) rig.engine->onload_params().value();
        rig.engine->load_weights(1, reader_of(flat, tensor::size_of(dtype))).value();
        rig.engine->onload_params().value();
        rig.engine->init_cache(rig.cache_bytes).value();
        rig.start();
        const TurnOutput found = rig.play(turn_request(1, 0, 12, 6));
        EXPECT_EQ(found.tokens, expected.tokens) << model.family;
        EXPECT_EQ(found.logp, expected.logp) << model.family;
        EXPECT_EQ(found.versions, expected.versions) << model.family;
      }
    }
}

TEST(GenerationResidency, OffloadAndFreeGiveTheBytesBack) {
  const auto weights = random_weights(generation_model());
  GenerationRig rig;
  EXPECT_EQ(rig.card.bytes_in_use(), 0U);
  EXPECT_EQ(rig.engine->onload_params()->bytes_on_card, rig.engine->capacity().param_bytes);
  EXPECT_EQ(rig.card.bytes_in_use(), rig.engine->capacity().param_bytes);
  rig.publish(1, weights);
  EXPECT_EQ(rig.card.bytes_in_use(), rig.engine->capacity().param_bytes);  // staging is on the host
  EXPECT_EQ(rig.engine->init_cache(rig.cache_bytes)->bytes_on_card, rig.cache_bytes);
  rig.start();
  const TurnOutput before = rig.play(turn_request(1, 0, 9, 5));
  rig.engine->finish(1);
  const auto freed = rig.engine->free_cache().value();
  EXPECT_EQ(freed.bytes_on_card, 0U);
  EXPECT_EQ(rig.engine->offload_params()->bytes_moved, rig.engine->capacity().weight_bytes);
  EXPECT_EQ(rig.card.bytes_in_use(), 0U);
  EXPECT_EQ(rig.engine->onload_params()->bytes_moved, rig.engine->capacity().weight_bytes);
  rig.engine->init_cache(rig.cache_bytes).value();
  rig.engine->submit(turn_request(2, 0, 3, 1)).value();
  rig.wait(2, 0);
  auto again = turn_request(1, 7, 9, 5);
  again.append_tokens = turn_request(1, 0, 9, 5).append_tokens;
  again.sampling.greedy = true;
  EXPECT_EQ(rig.play(again).tokens.size(), before.tokens.size());
}

// A cache takes what another object left, uncleared: nothing may read what no token has written.
TEST(GenerationResidency, WhatLayOnTheCardBeforeReachesNoToken) {
  const auto weights = random_weights(generation_model());
  const std::vector<uint64_t> ids = {1, 2, 3, 4, 5, 6, 7, 8};
  for (auto runner : {compute::RunnerKind::automatic, compute::RunnerKind::aten}) {
    RigOptions options;
    options.runner = runner;
    options.lanes = 2;
    GenerationRig clean(options);
    const auto expected = play_all(clean.serve(weights), ids, 3);
    options.pages = compute::CardPages::kept;
    GenerationRig used(options);
    {
      auto before = used.card.allocate("train_params", 3 * used.cache_bytes).value();
      std::memset(before.data(), 0xFF, before.size_bytes());  // NaN in every type
    }
    EXPECT_GE(used.card.idle_bytes(), 2 * used.cache_bytes);
    const auto found = play_all(used.serve(weights), ids, 3);
    for (uint64_t id : ids)
      for (size_t turn = 0; turn < 3; ++turn) {
        const auto &a = found.at(id)[turn], &b = expected.at(id)[turn];
        EXPECT_EQ(a.tokens, b.tokens);
        ASSERT_EQ(a.logp.size(), b.logp.size());
        for (size_t i = 0; i < a.logp.size(); ++i)  // ATen's bits depend on the batch (GEN-1)
          EXPECT_NEAR(a.logp[i], b.logp[i], runner == compute::RunnerKind::aten ? 2e-5 : 0);
      }
  }
}

// On a card that keeps its pages the engine keeps its host buffer: the second trip is as the first.
TEST(GenerationResidency, WeightsComeBackTheSameFromAKeptBuffer) {
  const auto weights = random_weights(generation_model()),
             next = random_weights(generation_model(), 2);
  RigOptions options;
  options.pages = compute::CardPages::kept;
  GenerationRig rig(options);
  rig.serve(weights);
  auto away_and_back = [&] {
    rig.engine->free_cache().value();
    rig.engine->offload_params().value();
    EXPECT_EQ(rig.card.bytes_in_use(), 0U);
    rig.engine->onload_params().value();
    rig.engine->init_cache(rig.cache_bytes).value();
  };
  uint64_t id = 1;
  auto play = [&] {  // the same turn under a new id
    auto request = turn_request(1, 0, 12, 6);
    request.request_id = id++;
    const TurnOutput output = rig.play(request);
    rig.engine->finish(request.request_id);
    return output.logp;
  };
  const auto first = play();
  EXPECT_FALSE(first.empty());
  for (int i = 0; i < 2; ++i) {
    away_and_back();
    EXPECT_EQ(play(), first);
  }
  rig.publish(2, next);  // the buffer now holds older weights than the card
  const auto second = play();
  EXPECT_NE(second, first);
  away_and_back();
  EXPECT_EQ(play(), second);
}

TEST(GenerationResidency, WeightsMayArriveBeforeTheCardIsTaken) {
  const auto weights = random_weights(generation_model());
  GenerationRig early, late;
  early.publish(1, weights);
  EXPECT_EQ(early.card.bytes_in_use(), 0U);
  early.engine->onload_params().value();
  early.engine->init_cache(early.cache_bytes).value();
  early.start();
  late.serve(weights);
  EXPECT_EQ(early.play(turn_request(3, 0, 9, 5)).logp, late.play(turn_request(3, 0, 9, 5)).logp);
}

TEST(GenerationResidency, NothingIsComputedUnlessAllIsOnTheCard) {  // PLACE-4
  GenerationRig rig;
  const auto code = [&] { return rig.engine->submit(turn_request(1, 0, 3, 1)).error().code; };
  EXPECT_EQ(code(), Errc::placement);
  rig.engine->onload_params().value();
  rig.engine->init_cache(rig.cache_bytes).value();
  EXPECT_EQ(code(), Errc::placement);  // no version yet
  rig.publish(1, random_weights(generation_model()));
  rig.engine->free_cache().value();
  EXPECT_EQ(code(), Errc::placement);
  rig.engine->init_cache(rig.cache_bytes).value();
  rig.start();
  rig.engine->submit(turn_request(1, 0, 3, 1)).value();
  rig.wait(1, 0);
  rig.engine->offload_params().value();
  EXPECT_EQ(rig.engine->submit(turn_request(2, 0, 3, 1)).error().code, Errc::placement);
}

TEST(GenerationResidency, TurnsInFlightHoldTheCard) {
  GenerationRig rig;
  rig.engine->onload_params().value();
  rig.publish(1, random_weights(generation_model()));
  rig.engine->init_cache(rig.cache_bytes).value();
  rig.engine->submit(turn_request(1, 0, 3, 1)).value();  // lanes have not started: it waits
  EXPECT_EQ(rig.engine->free_cache().error().code, Errc::placement);
  EXPECT_EQ(rig.engine->offload_params().error().code, Errc::placement);
  rig.engine->finish(1);
  EXPECT_TRUE(rig.engine->free_cache());
}

TEST(GenerationResidency, ACardThatIsTooSmallIsNamed) {
  RigOptions options;
  options.budget_bytes = 1000;
  GenerationRig rig(options);
  EXPECT_EQ(rig.engine->onload_params().error().code, Errc::capacity);
  EXPECT_EQ(rig.engine->init_cache(100).error().code, Errc::capacity);
}

TEST(GenerationTurns, BadRequestsAreRefused) {
  GenerationRig rig;
  rig.serve(random_weights(generation_model()));
  auto outside = turn_request(1, 0, 3, 1);
  outside.append_tokens[1] = 29;
  EXPECT_EQ(rig.engine->submit(outside).error().code, Errc::invalid_argument);
  EXPECT_EQ(rig.engine->submit(turn_request(1, 0, 0, 1)).error().code, Errc::invalid_argument);
  EXPECT_EQ(rig.engine->submit(turn_request(1, 0, 3, 0)).error().code, Errc::invalid_argument);
  auto cold = turn_request(1, 0, 3, 1);
  cold.sampling.temperature = 0;
  EXPECT_EQ(rig.engine->submit(cold).error().code, Errc::invalid_argument);
}

TEST(GenerationTurns, ATurnWithoutNewTokensContinuesTheAnswer) {
  const auto weights = random_weights(generation_model());
  GenerationRig rig;
  rig.serve(weights);
  auto whole = turn_request(1, 0, 10, 8);
  whole.sampling.greedy = true;
  const TurnOutput expected = rig.play(whole);
  rig.engine->finish(1);
  auto first = turn_request(2, 0, 0, 3);
  first.append_tokens = whole.append_tokens;
  first.sampling.greedy = true;
  auto found = rig.play(first);
  auto second = turn_request(2, 1, 0, 5);
  second.sampling.greedy = true;
  const TurnOutput rest = rig.play(second);
  found.tokens.insert(found.tokens.end(), rest.tokens.begin(), rest.tokens.end());
  found.logp.insert(found.logp.end(), rest.logp.begin(), rest.logp.end());
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.logp, expected.logp);
}

TEST(GenerationTurns, ManyTrajectoriesShareFewSlotsAndLeaveNoBlock) {
  RigOptions options;
  options.lanes = 2;
  options.max_running = 4;
  options.cache_blocks = 16;
  GenerationRig rig(options);
  rig.serve(random_weights(generation_model()));
  for (uint64_t id = 0; id < 200; ++id) {
    auto request = random_turn(id, 0);
    request.is_last = true;
    rig.engine->submit(std::move(request)).value();
  }
  for (uint64_t id = 0; id < 200; ++id) EXPECT_NE(rig.wait(id, 0).stop, TurnStop::none) << id;
  rig.engine->free_cache().value();  // waits for the iterations in progress
  rig.engine->init_cache(rig.cache_bytes).value();
  const auto stats = rig.engine->stats().total;
  EXPECT_EQ(stats.blocks_free, stats.blocks_total);
  EXPECT_EQ(stats.running, 0U);
  EXPECT_GT(rig.engine->stats().workers[0].tokens_sampled, 0U);
  EXPECT_GT(rig.engine->stats().workers[1].tokens_sampled, 0U);
}

TEST(GenerationTurns, TheWaitingQueueIsBounded) {  // FLOW-4
  RigOptions options;
  options.max_running = 2;
  options.max_waiting = 3;
  GenerationRig rig(options);
  rig.engine->onload_params().value();
  rig.publish(1, random_weights(generation_model()));
  rig.engine->init_cache(rig.cache_bytes).value();
  for (uint64_t id = 0; id < 5; ++id) rig.engine->submit(turn_request(id, 0, 3, 1)).value();
  EXPECT_EQ(rig.engine->submit(turn_request(9, 0, 3, 1)).error().code, Errc::backpressure);
}

TEST(GenerationTurns, NotANumberEndsTheTurnWithAnError) {
  auto weights = random_weights(generation_model());
  weights[3] = std::numeric_limits<float>::quiet_NaN();  // of token 0
  GenerationRig rig;
  rig.serve(weights);
  auto request = turn_request(1, 0, 2, 4);
  request.append_tokens = {0, 0};
  EXPECT_EQ(rig.play(request).stop, TurnStop::error);
}

TEST(GenerationTurns, AFinishedTurnGivesNoOutputAndItsIdMayComeAgain) {
  GenerationRig rig;
  rig.engine->onload_params().value();
  rig.publish(1, random_weights(generation_model()));
  rig.engine->init_cache(rig.cache_bytes).value();
  rig.engine->submit(turn_request(1, 0, 5, 3)).value();
  rig.engine->finish(1);
  rig.engine->submit(turn_request(1, 4, 5, 3)).value();
  rig.start();
  EXPECT_EQ(rig.wait(1, 4).tokens.size(), 3U);
  EXPECT_FALSE(rig.has_output(1, 0));
}

TEST(GenerationEnd, StopWhileRequestsWaitIsPrompt) {
  RigOptions options;
  options.lanes = 2;
  options.max_running = 2;
  GenerationRig rig(options);
  rig.serve(random_weights(generation_model()));
  for (uint64_t id = 0; id < 500; ++id) rig.engine->submit(turn_request(id, 0, 20, 100)).value();
  const double begin = now_seconds();
  rig.engine->stop();
  EXPECT_LT(now_seconds() - begin, 2.0);
  EXPECT_EQ(rig.engine->submit(turn_request(900, 0, 3, 1)).error().code, Errc::closed);
}

TEST(GenerationEnd, WeightsMayChangeWhileTurnsRun) {
  RigOptions options;
  options.lanes = 2;
  GenerationRig rig(options);
  rig.serve(random_weights(generation_model(), 1));
  for (uint64_t id = 0; id < 64; ++id) rig.engine->submit(turn_request(id, 0, 20, 100)).value();
  for (uint64_t version = 2; version < 8; ++version)
    rig.publish(version, random_weights(generation_model(), version));
  for (uint64_t id = 0; id < 64; ++id) {
    const TurnOutput out = rig.wait(id, 0);
    EXPECT_EQ(out.tokens.size(), 100U);
    EXPECT_GE(std::ranges::min(out.versions), 1U);
    EXPECT_TRUE(std::ranges::is_sorted(out.versions));
    EXPECT_LT(out.versions.back(), 8U);
  }
}

}  // namespace
}  // namespace cohort::tests
