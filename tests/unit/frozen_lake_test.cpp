#include "runtime/tasks/frozen_lake.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "runtime/tasks/seeds.hpp"

namespace cohort::tasks {
namespace {

std::unique_ptr<FrozenLake> make_lake(FrozenLakeConfig config = {}) {
  auto lake = FrozenLake::create(config);
  EXPECT_TRUE(lake.has_value());
  return std::move(*lake);
}

double metric(const FrozenLake& lake, std::string_view name) {
  for (const auto& [key, value] : lake.metrics()) {
    if (key == name) return value;
  }
  ADD_FAILURE() << "no metric " << name;
  return -1;
}

/// Finds a seed whose first move `action` has the given event.
uint64_t seed_where(Action action, std::string_view event) {
  auto lake = make_lake();
  for (uint64_t seed = 0;; ++seed) {
    lake->reset(seed);
    if (lake->play(action).event == event) return seed;
  }
}

TEST(FrozenLake, ShowsTheMapAsGlyphs) {
  auto lake = make_lake();
  std::string text = lake->reset(7);
  const FrozenLakeMap map = generate_map(7, 4, 0.8);
  ASSERT_EQ(text.size(), 19U);  // 4 rows of 4 and 3 newlines
  for (int cell = 0; cell < 16; ++cell) {
    char glyph = text[static_cast<size_t>(cell + cell / 4)];
    char expected = cell == map.start   ? 'P'
                    : cell == map.goal  ? 'G'
                    : map.is_hole(cell) ? 'O'
                                        : '_';
    EXPECT_EQ(glyph, expected) << "cell " << cell;
  }
}

TEST(FrozenLake, GoalPaysOneAndEnds) {
  auto lake = make_lake();
  lake->reset(seed_where(Action::right, "goal"));
  StepResult result = lake->step("<answer>Right</answer>");
  EXPECT_EQ(result.reward, 1.0F);
  EXPECT_TRUE(result.is_done && result.is_success && result.is_effective && result.is_valid);
  EXPECT_EQ(result.stop_reason, "goal");
  EXPECT_NE(result.observation.find("√"), std::string::npos);
  EXPECT_EQ(metric(*lake, "success"), 1);
}

TEST(FrozenLake, HolePaysNothingAndEnds) {
  auto lake = make_lake();
  lake->reset(seed_where(Action::down, "hole"));
  StepResult result = lake->step("<answer>Down</answer>");
  EXPECT_EQ(result.reward, 0.0F);
  EXPECT_TRUE(result.is_done);
  EXPECT_FALSE(result.is_success);
  EXPECT_EQ(result.stop_reason, "hole");
  EXPECT_NE(result.observation.find('X'), std::string::npos);
}

TEST(FrozenLake, BorderBlocksAMove) {
  auto lake = make_lake();
  std::string before = lake->reset(seed_where(Action::up, "blocked"));
  StepResult result = lake->step("<answer>Up</answer>");
  EXPECT_EQ(result.event, "blocked");
  EXPECT_TRUE(result.is_valid);
  EXPECT_FALSE(result.is_effective);
  EXPECT_EQ(result.observation, before);
  EXPECT_EQ(result.reward, 0.0F);
}

TEST(FrozenLake, InvalidAnswerCostsThePenaltyAndATurn) {
  FrozenLakeConfig config;
  config.format_penalty = -0.25F;
  auto lake = make_lake(config);
  std::string before = lake->reset(3);
  for (const char* answer : {"", "Right", "<answer>North</answer>", "<answer>Right"}) {
    StepResult result = lake->step(answer);
    EXPECT_EQ(result.reward, -0.25F) << answer;
    EXPECT_FALSE(result.is_valid || result.is_effective);
    EXPECT_EQ(result.event, "invalid");
    EXPECT_EQ(result.observation, before);
  }
  EXPECT_EQ(lake->actions_left(), 6);
  EXPECT_EQ(metric(*lake, "action_is_valid"), 0);
  EXPECT_EQ(metric(*lake, "format_penalty"), -0.25);
  EXPECT_EQ(metric(*lake, "num_actions"), 4);
}

TEST(FrozenLake, EndsAfterMaxSteps) {
  FrozenLakeConfig config;
  config.max_steps = 2;
  auto lake = make_lake(config);
  lake->reset(1);
  EXPECT_FALSE(lake->step("?").is_done);
  StepResult last = lake->step("?");
  EXPECT_TRUE(last.is_done);
  EXPECT_EQ(last.stop_reason, "max_turns");
}

TEST(FrozenLakeDeathTest, NothingAfterTheEnd) {
  auto lake = make_lake();
  EXPECT_DEATH(lake->step("<answer>Left</answer>"), "TASK-2");
}

TEST(FrozenLake, MeansOfAMixedEpisode) {
  auto lake = make_lake();
  lake->reset(seed_where(Action::up, "blocked"));
  lake->step("<answer>Up</answer>");
  lake->step("no");
  EXPECT_EQ(metric(*lake, "action_is_effective"), 0);
  EXPECT_EQ(metric(*lake, "action_is_valid"), 0.5);
  EXPECT_EQ(metric(*lake, "format_penalty"), -0.01F / 2.0);
}

TEST(FrozenLake, RefusesNonsense) {
  FrozenLakeConfig small;
  small.size = 1;
  FrozenLakeConfig wet;
  wet.p = 0;
  FrozenLakeConfig endless;
  endless.max_steps = 0;
  FrozenLakeConfig pattern;
  pattern.action_pattern = "<answer>";
  for (const FrozenLakeConfig& config : {small, wet, endless, pattern})
    EXPECT_EQ(FrozenLake::create(config).error().code, Errc::invalid_argument);
}

TEST(FrozenLake, SlipsAsGymnasiumDraws) {
  std::ifstream file(std::string(std::getenv("COHORT_SOURCE_DIR")) +
                     "/tests/golden/data/frozen_lake_maps.txt");
  FrozenLakeConfig config;
  config.is_slippery = true;
  config.max_steps = 20;
  int checked = 0;
  for (std::string text; std::getline(file, text);) {
    std::istringstream words(text);
    std::string kind;
    uint64_t seed = 0;
    words >> kind >> seed;
    if (kind != "slip") continue;
    auto lake = make_lake(config);
    lake->reset(seed);
    for (int turn = 0; words >> turn && !lake->is_done(); ++checked) {
      const int wanted = (static_cast<int>(Action::right) + turn - 1) % k_action_count;
      int expected = neighbour(lake->map(), lake->player(), static_cast<Action>(wanted));
      lake->play(Action::right);
      ASSERT_EQ(lake->player(), expected) << "seed " << seed;
    }
  }
  EXPECT_GT(checked, 20);
}

TEST(Seeds, ArePureAndInTheirRanges) {
  SeedOptions options;
  options.run_seed = 5;
  EXPECT_EQ(episode_seed(options, EpisodeUse::train, 3, 9),
            episode_seed(options, EpisodeUse::train, 3, 9));
  EXPECT_NE(episode_seed(options, EpisodeUse::train, 3, 9),
            episode_seed(options, EpisodeUse::warm_start, 3, 9));
  EXPECT_NE(episode_seed(options, EpisodeUse::train, 3, 9, 0),
            episode_seed(options, EpisodeUse::train, 3, 9, 1));
  for (uint32_t group = 0; group < 200; ++group)
    EXPECT_LT(episode_seed(options, EpisodeUse::train, 0, group), options.validation_first);
  std::vector<uint64_t> held_out = validation_seeds(options);
  EXPECT_EQ(held_out.size(), 256U);
  EXPECT_EQ(held_out.front(), 1'000'000U);
  EXPECT_EQ(held_out.back(), 1'000'255U);
}

TEST(Seeds, TrainingNeverPlaysAHeldOutMap) {
  const SeedOptions options;
  const EpisodeSeeds seeds(options, FrozenLakeConfig{});
  int redrawn = 0;
  for (uint32_t group = 0; group < 2000; ++group) {
    uint64_t seed = seeds.seed(EpisodeUse::train, 0, group);
    EXPECT_FALSE(seeds.is_held_out(seed));
    redrawn += seed == episode_seed(options, EpisodeUse::train, 0, group) ? 0 : 1;
  }
  EXPECT_GT(redrawn, 0);
  RecordProperty("redrawn_of_2000", redrawn);
  EXPECT_TRUE(seeds.is_held_out(seeds.seed(EpisodeUse::validation, 7, 31)));
}

TEST(Seeds, TrainingLakesMayDifferFromHeldOutOnes) {
  FrozenLakeConfig wet;
  wet.p = 0.7;
  const EpisodeSeeds seeds({}, wet, FrozenLakeConfig{});
  std::set<std::string> held_out;
  for (uint64_t seed : validation_seeds({})) held_out.insert(generate_map(seed, 4, 0.8).cells);
  for (uint32_t group = 0; group < 500; ++group) {
    const uint64_t seed = seeds.seed(EpisodeUse::train, 1, group);
    EXPECT_FALSE(held_out.contains(generate_map(seed, 4, 0.7).cells));
  }
}

}  // namespace
}  // namespace cohort::tasks
