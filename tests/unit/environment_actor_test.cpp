#include <gtest/gtest.h>

#include <filesystem>

#include "actors/environment.hpp"
#include "actors/reward.hpp"
#include "runtime/control/system.hpp"

namespace cohort::actors {
namespace {

std::shared_ptr<const EnvironmentOptions> lake_options() {
  tasks::PromptOptions prompt;
  prompt.agent_template = "{event}{observation}";
  prompt.shows_instructions = false;
  auto compiled = tasks::PromptTemplate::create(prompt);
  tasks::FrozenLakeConfig lake;
  lake.max_steps = 16;  // longer than any shortest path
  return std::make_shared<const EnvironmentOptions>(
      EnvironmentOptions{lake, std::move(*compiled), std::nullopt, 4});
}

size_t thread_count() {
  auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST(EnvironmentActor, TwoThousandGamesCostNoThreadEach) {
  control::SystemConfig config({.scheduler_threads = 2, .is_test = false});
  caf::actor_system system{config};
  caf::scoped_actor self{system};
  auto options = lake_options();
  size_t before = thread_count();
  std::vector<EnvironmentActor> games;
  for (int i = 0; i < 2048; ++i) games.push_back(system.spawn(environment, options));
  size_t answered = 0;
  for (size_t i = 0; i < games.size(); ++i)
    self->request(games[i], std::chrono::seconds(30), control::play_atom_v, uint64_t{i},
                  uint64_t{i}, 1.0, uint64_t{i})
        .receive([&](const Transcript& game) { answered += game.turns.back().is_success ? 1 : 0; },
                 [&](const caf::error& e) { ADD_FAILURE() << caf::to_string(e); });
  EXPECT_EQ(answered, games.size()) << "the shortest path always arrives";
  EXPECT_LE(thread_count(), before + 1);
}

TEST(EnvironmentActor, AGameThatIsOverRefusesAnotherAction) {
  EnvironmentState game;
  ASSERT_TRUE(game.configure(lake_options()));
  EXPECT_FALSE(game.on_act("<answer>Left</answer>"));
  ASSERT_TRUE(game.on_play(1, 1.0, 0));
  auto late = game.on_act("<answer>Left</answer>");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::protocol);
}

TEST(Reward, ScoreIsTheWeightedSumAndSitsOnTheLastToken) {
  proto::Trajectory t;
  t.tokens = {1, 2, 3};
  t.turns.resize(2);
  t.turns[0].env_reward = -0.01F;
  t.turns[1].env_reward = 1;
  auto returns = make_reward("env", "env_return", 2);
  auto turns = make_reward("short", "num_turns", -0.1);
  ASSERT_TRUE(returns && turns);
  score_trajectory({*returns, *turns}, t);
  EXPECT_NEAR(t.score, 2 * 0.99 - 0.2, 1e-6);
  EXPECT_EQ(t.token_rewards, (std::vector<float>{0, 0, static_cast<float>(t.score)}));
  EXPECT_FALSE(make_reward("x", "nonsense", 1));
}

}  // namespace
}  // namespace cohort::actors
