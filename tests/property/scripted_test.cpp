// Reference policies on the held-out maps, and laws that hold for every seed.
#include "runtime/tasks/scripted.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "runtime/tasks/chat_format.hpp"
#include "runtime/tasks/prompt.hpp"
#include "runtime/tasks/seeds.hpp"
#include "runtime/tasks/tokenizer.hpp"
#include "tests/support/lake_tokenizer.hpp"

namespace cohort::tasks {
namespace {

uint64_t property_seed() {
  const char* text = std::getenv("COHORT_SEED");
  uint64_t seed = text ? std::stoull(text) : 20'261'121;
  testing::Test::RecordProperty("seed", std::to_string(seed));
  return seed;
}

double rate(Player player, uint32_t maps, double expert_fraction = 0.5) {
  const SeedOptions options{.validation_count = maps};
  const std::vector<uint64_t> seeds = validation_seeds(options);
  return evaluate_scripted({player, expert_fraction}, seeds, FrozenLakeConfig{.max_steps = 8},
                           Rng(1));
}

TEST(Scripted, ReferenceRatesOn2000HeldOutMaps) {
  const double random = rate(Player::random_valid, 2000);
  const double straight = rate(Player::walk_straight, 2000);
  const double mixed = rate(Player::mixed, 2000);
  const double shortest = rate(Player::shortest_path, 2000);
  RecordProperty("rates", std::to_string(random) + " " + std::to_string(straight) + " " +
                              std::to_string(mixed) + " " + std::to_string(shortest));
  EXPECT_NEAR(random, 0.21, 0.03);
  EXPECT_NEAR(straight, 0.755, 0.03);
  EXPECT_NEAR(mixed, 0.676, 0.03);
  EXPECT_GT(shortest, 0.99);
}

TEST(Scripted, SameSeedSameEpisodes) {
  const std::vector<uint64_t> seeds = validation_seeds({});
  const PlayerOptions mixed{Player::mixed, 0.3};
  EXPECT_EQ(evaluate_scripted(mixed, seeds, {}, Rng(4)),
            evaluate_scripted(mixed, seeds, {}, Rng(4)));
}

TEST(Scripted, ShortestPathTakesExactlyTheDistance) {
  auto lake = FrozenLake::create({.max_steps = 1000});
  Rng rng(property_seed());
  for (int i = 0; i < 300; ++i) {
    (*lake)->reset(rng.below(1'000'000'000));
    const int start = (*lake)->player();
    const int distance = distances_to_goal((*lake)->map())[static_cast<size_t>(start)];
    int moves = 0;
    for (; !(*lake)->is_done(); ++moves)
      (*lake)->play(scripted_action({Player::shortest_path, 0}, **lake, rng));
    EXPECT_EQ(moves, distance);
    EXPECT_EQ((*lake)->metrics()[0].second, 1);
  }
}

// TASK-1 and TASK-4 on random play: equal episodes, and every text the demo shows survives the
// tokenizer.
TEST(Scripted, EpisodesRepeatAndEncode) {
  auto first = FrozenLake::create({});
  auto second = FrozenLake::create({});
  const auto chat = make_chatml(tests::lake_tokenizer()).value();
  auto prompt = PromptTemplate::create({.system_template = "",
                                        .agent_template = "{event}\n{observation}",
                                        .shows_instructions = false});
  Rng rng(property_seed() + 1);
  for (int i = 0; i < 200; ++i) {
    const uint64_t seed = rng.next_u64();
    ASSERT_EQ((*first)->reset(seed), (*second)->reset(seed));
    while (!(*first)->is_done()) {
      std::string answer =
          rng.below(5) == 0 ? "<answer>?" : answer_text(static_cast<Action>(rng.below(4)));
      StepResult a = (*first)->step(answer);
      StepResult b = (*second)->step(answer);
      ASSERT_EQ(a.observation, b.observation);
      ASSERT_EQ(a.reward, b.reward);
      ASSERT_EQ(a.stop_reason, b.stop_reason);
      if (a.is_done) break;
      const ChatMessage next = prompt->next_turn({.observation = a.observation, .event = a.event});
      ASSERT_TRUE(chat->following(next, answer)) << next.content;
    }
  }
}

}  // namespace
}  // namespace cohort::tasks
