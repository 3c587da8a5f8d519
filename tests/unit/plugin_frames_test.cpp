/// Frames between a supervisor and a plugin child: round trips, and bytes that nobody wrote.
#include "runtime/plugin/child/plugin_frames.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "runtime/base/rng.hpp"

namespace cohort::plugin {
namespace {

Results some_results() {
  tasks::RewardResult scored{.score = -0.5,
                             .parts = {{"acc", 1}, {"", std::numeric_limits<double>::min()}},
                             .detail = "found=\n\"5\"",
                             .error = ""};
  return {.first = 3,
          .rows = {{Verdict::scored, scored},
                   {Verdict::raised, without_score("raised ValueError")},
                   {Verdict::refused, without_score("returned nan")}}};
}

TEST(PluginFrames, RowsComeBackAsTheyWere) {
  tasks::RewardRow row;
  row.id = "rows.jsonl:17";
  row.response = std::string("zero \0 byte, \xff no UTF-8", 22);
  row.messages = R"([{"role": "user", "content": "?"}])";
  row.columns = "{}";
  row.response_tokens = 4'000'000'000;
  row.is_finished = false;
  tasks::RewardRow empty;
  const tasks::RewardRow* rows[] = {&row, &empty};
  auto found = read_rows(rows_payload(rows));
  ASSERT_TRUE(found.has_value());
  ASSERT_EQ(found->size(), 2U);
  EXPECT_EQ((*found)[0].id, row.id);
  EXPECT_EQ((*found)[0].response, row.response);
  EXPECT_EQ((*found)[0].messages, row.messages);
  EXPECT_EQ((*found)[0].columns, row.columns);
  EXPECT_EQ((*found)[0].response_tokens, row.response_tokens);
  EXPECT_FALSE((*found)[0].is_finished);
  EXPECT_TRUE((*found)[1].is_finished);
}

TEST(PluginFrames, ResultsWorldsAndFailuresComeBackAsTheyWere) {
  const Results results = some_results();
  auto found = read_results(results_payload(results));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->first, 3U);
  ASSERT_EQ(found->rows.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found->rows[i].verdict, results.rows[i].verdict);
    EXPECT_EQ(found->rows[i].result, results.rows[i].result);
  }
  World world;
  world.step = {.observation = "P_\n_G",
                .reward = 0.25F,
                .is_done = true,
                .is_valid = false,
                .is_effective = true,
                .is_success = true,
                .stop_reason = "goal",
                .event = "moved"};
  world.actions_left = -1;
  world.instructions = "rules";
  world.metrics = {{"turns", 2}};
  auto back = read_world(world_payload(world));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->step.observation, "P_\n_G");
  EXPECT_EQ(back->step.reward, 0.25F);
  EXPECT_TRUE(back->step.is_done && back->step.is_effective && back->step.is_success);
  EXPECT_FALSE(back->step.is_valid);
  EXPECT_EQ(back->step.stop_reason + back->step.event + back->instructions, "goalmovedrules");
  EXPECT_EQ(back->actions_left, -1);
  EXPECT_EQ(back->metrics, world.metrics);
  auto failure = read_failure(failure_payload({Verdict::refused, Errc::unsupported, "why"}));
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->verdict, Verdict::refused);
  EXPECT_EQ(failure->code, Errc::unsupported);
  EXPECT_EQ(failure->reason, "why");
}

TEST(PluginFrames, BytesThatEndTooEarlyOrTooLateAreAnError) {
  const std::string whole = results_payload(some_results());
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(read_results(whole.substr(0, size)).has_value()) << size;
  EXPECT_FALSE(read_results(whole + "x").has_value());
  EXPECT_FALSE(read_world(world_payload({}) + "x").has_value());
  EXPECT_FALSE(read_world_call(Op::reset, reset_payload(1, 2).substr(1)).has_value());
}

TEST(PluginFrames, ArbitraryBytesAreReadWithinTheirBounds) {  // FRAME-1, with the sanitizer
  Rng rng(20261121);
  const std::string whole = results_payload(some_results());
  size_t good = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = whole;
    for (int flips = 0; flips < 3; ++flips)
      bytes[rng.next_u64() % bytes.size()] = static_cast<char>(rng.next_u64() & 255);
    bytes.resize(rng.next_u64() % (bytes.size() + 1));
    good += read_results(bytes) ? 1U : 0U;
    (void)read_rows(bytes);
    (void)read_world(bytes);
    (void)read_failure(bytes);
  }
  EXPECT_LT(good, 2'000U);  // most of them lack their end
}

}  // namespace
}  // namespace cohort::plugin
