// What the seam asks of an engine beyond turns: abort, pause, a version in the middle of a turn.
// The tokens that come out are those of an engine that nobody has interrupted (GEN-1).
#include <gtest/gtest.h>

#include "runtime/base/clock.hpp"
#include "runtime/compute/generate/engine_table.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/generation_rig.hpp"

namespace cohort::tests {
namespace {

using compute::PauseMode;
using compute::TurnOutput;
using compute::TurnRequest;
using compute::TurnStop;

constexpr int k_answer = 120;  // [tokens]

/// What is left of a turn that ended early: a new trajectory with all tokens so far.
TurnRequest rest_of(const TurnRequest& whole, const TurnOutput& part, uint64_t id) {
  TurnRequest rest = whole;
  rest.request_id = id;
  rest.append_tokens.insert(rest.append_tokens.end(), part.tokens.begin(), part.tokens.end());
  rest.max_new_tokens -= static_cast<int>(part.tokens.size());
  rest.first_position = static_cast<uint32_t>(part.tokens.size());
  return rest;
}

TurnOutput joined(TurnOutput part, const TurnOutput& rest) {
  part.tokens.insert(part.tokens.end(), rest.tokens.begin(), rest.tokens.end());
  part.logp.insert(part.logp.end(), rest.logp.begin(), rest.logp.end());
  part.versions.insert(part.versions.end(), rest.versions.begin(), rest.versions.end());
  return part;
}

TEST(GenerationAbort, WhatWasSampledComesOutAndTheRestIsTheSame) {  // GEN-1
  GenerationRig rig;
  rig.serve(random_weights(generation_model()));
  const TurnRequest whole = turn_request(1, 0, 12, k_answer);
  const TurnOutput expected = rig.play(whole);
  ASSERT_EQ(expected.tokens.size(), size_t{k_answer});
  uint64_t id = 1;
  for (int after : {1, 17, 60}) {
    TurnRequest request = whole;
    request.request_id = ++id;
    rig.interrupt(request, after, [&] {
      rig.engine->abort(id);
      rig.engine->abort(id);  // idempotent
    });
    const TurnOutput part = rig.wait(id, 0);
    ASSERT_EQ(part.stop, TurnStop::aborted) << after;
    ASSERT_GE(part.tokens.size(), static_cast<size_t>(after));
    ASSERT_LE(part.tokens.size(), static_cast<size_t>(after) + 1);
    const TurnOutput both = joined(part, rig.play(rest_of(whole, part, ++id)));
    EXPECT_EQ(both.tokens, expected.tokens);
    EXPECT_EQ(both.logp, expected.logp);
  }
  EXPECT_EQ(rig.engine->stats().total.waiting, 0U);
}

TEST(GenerationAbort, ATurnThatWaitsEndsEmptyAndATrajectoryWithoutOneIsForgotten) {
  RigOptions options;
  options.max_running = 1;
  GenerationRig rig(options);
  rig.serve(random_weights(generation_model()));
  rig.engine->pause(PauseMode::keep);
  rig.engine->submit(turn_request(1, 0, 12, k_answer)).value();
  rig.engine->submit(turn_request(2, 0, 12, 6)).value();  // no slot
  rig.engine->abort(2);
  rig.engine->resume();
  const TurnOutput none = rig.wait(2, 0);
  EXPECT_EQ(none.stop, TurnStop::aborted);
  EXPECT_TRUE(none.tokens.empty());
  EXPECT_EQ(rig.wait(1, 0).tokens.size(), size_t{k_answer});
  rig.engine->abort(1);  // between two turns
  EXPECT_EQ(rig.play(turn_request(3, 0, 12, 6)).tokens.size(), 6U) << "its slot is free";
  rig.engine->abort(4);  // unknown
  // The same id again is another trajectory.
  EXPECT_EQ(rig.play(turn_request(3, 0, 3, 4)).tokens.size(), 4U);
}

TEST(GenerationTurn, GoesOnFromTheTokensItsCallerMeansOrIsRefused) {  // GEN-3
  GenerationRig rig;
  rig.serve(random_weights(generation_model()));
  TurnRequest first = turn_request(1, 0, 12, 6), second = turn_request(1, 1, 5, 4);
  first.kept_tokens = 3;
  EXPECT_EQ(rig.engine->submit(first).error().code, Errc::invalid_argument);
  first.kept_tokens = 0;
  const size_t kept = 12 + rig.play(first).tokens.size();
  second.kept_tokens = kept - 1;
  const Error refused = rig.engine->submit(second).error();
  EXPECT_EQ(refused.code, Errc::invalid_argument);
  EXPECT_NE(refused.detail.find(std::to_string(kept) + " tokens of it are kept"), std::string::npos)
      << refused.detail;
  second.kept_tokens = kept;
  EXPECT_EQ(rig.play(second).tokens.size(), 4U) << "a refused turn changes nothing";
  rig.engine->abort(1);  // between two turns: forgotten
  TurnRequest third = turn_request(1, 2, 5, 4);
  third.kept_tokens = kept + 9;
  EXPECT_EQ(rig.engine->submit(third).error().code, Errc::invalid_argument);
}

TEST(GenerationPause, NothingIsSampledUntilTheEngineGoesOn) {
  GenerationRig rig;
  rig.serve(random_weights(generation_model()));
  const TurnOutput expected = rig.play(turn_request(1, 0, 12, k_answer));
  TurnRequest request = turn_request(1, 0, 12, k_answer);
  request.request_id = 2;
  rig.interrupt(request, 20, [&] {
    rig.engine->pause(PauseMode::keep);
    rig.engine->pause(PauseMode::keep);
  });
  const uint64_t sampled = rig.engine->stats().total.tokens_sampled;
  rig.engine->submit(turn_request(3, 0, 4, 4)).value();
  EXPECT_FALSE(test::wait_until(
      [&] { return rig.engine->stats().total.tokens_sampled != sampled || rig.has_output(2, 0); },
      30));
  rig.engine->resume();
  EXPECT_EQ(rig.wait(2, 0).tokens, expected.tokens);
  EXPECT_EQ(rig.wait(2, 0).logp, expected.logp);
  EXPECT_EQ(rig.wait(3, 0).tokens.size(), 4U);
}

TEST(GenerationPause, AnAbortingPauseEndsEveryTurnInFlight) {  // GEN-2
  RigOptions options;
  options.lanes = 2;
  options.max_running = 4;
  GenerationRig rig(options);
  rig.serve(random_weights(generation_model()));
  rig.engine->pause(PauseMode::keep);
  for (uint64_t id = 0; id < 20; ++id) rig.engine->submit(turn_request(id, 0, 9, k_answer)).value();
  rig.engine->pause(PauseMode::abort);
  for (uint64_t id = 0; id < 20; ++id) EXPECT_EQ(rig.wait(id, 0).stop, TurnStop::aborted) << id;
  rig.engine->offload_params().value();  // nothing is in flight
  rig.engine->onload_params().value();
  rig.engine->submit(turn_request(30, 0, 9, 5)).value();
  EXPECT_FALSE(rig.has_output(30, 0));
  rig.engine->resume();
  EXPECT_EQ(rig.wait(30, 0).tokens.size(), 5U);
}

TEST(GenerationPause, APausedEngineStops) {
  GenerationRig rig;
  rig.serve(random_weights(generation_model()));
  rig.engine->pause(PauseMode::keep);
  rig.engine->submit(turn_request(1, 0, 4, 4)).value();
  rig.engine->stop();
  EXPECT_FALSE(rig.has_output(1, 0));
}

TEST(GenerationWeights, AVersionServedInTheMiddleOfATurnSamplesFromNothingOlder) {
  const auto first = random_weights(generation_model(), 1);
  const auto second = random_weights(generation_model(), 2);
  const TurnRequest whole = turn_request(1, 0, 12, k_answer);
  GenerationRig rig;
  rig.serve(first);
  std::ranges::copy(std::as_bytes(std::span(second)),
                    rig.engine->begin_weights(2).value().bytes.begin());
  rig.interrupt(whole, 10, [&] { serve_weights(*rig.engine, 2).value(); });
  const TurnOutput mixed = rig.wait(1, 0);
  const auto change = std::ranges::find(mixed.versions, 2U) - mixed.versions.begin();
  ASSERT_GE(change, 10);
  ASSERT_LE(change, 11);
  EXPECT_TRUE(std::ranges::is_sorted(mixed.versions));
  TurnOutput part;
  part.tokens.assign(mixed.tokens.begin(), mixed.tokens.begin() + change);
  GenerationRig fresh;
  fresh.serve(second);
  const TurnOutput rest = fresh.play(rest_of(whole, part, 1));
  EXPECT_EQ(std::vector<int32_t>(mixed.tokens.begin() + change, mixed.tokens.end()), rest.tokens);
  EXPECT_EQ(std::vector<float>(mixed.logp.begin() + change, mixed.logp.end()), rest.logp);
}

TEST(EngineTable, AnEngineIsOpenedByItsName) {
  compute::CardMemory card(CardId{0}, 1 << 30);
  compute::EngineSetup setup;
  setup.model = generation_model();
  setup.card = &card;
  setup.threads = 2;
  setup.max_running = 9;
  setup.max_context = 100;
  auto engine = compute::engine_named("built_in").value().open(setup).value();
  EXPECT_EQ(engine->capacity().max_running, 8U) << "whole slots of each thread";
  EXPECT_EQ(engine->capacity().max_context, 100);
  setup.settings = {{"url", "http://127.0.0.1:1"}};
  EXPECT_EQ(compute::engine_named("built_in").value().open(setup).error().detail,
            "the built-in engine has no setting 'url'");
  EXPECT_EQ(compute::engine_named("vlm").error().detail, "engine 'vlm' is none of: built_in");
}

}  // namespace
}  // namespace cohort::tests
