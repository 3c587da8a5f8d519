// SOKOBAN-1: each room has a solution, found by a solver that knows nothing of how rooms are made.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <thread>

#include "runtime/base/rng.hpp"
#include "runtime/tasks/sokoban.hpp"
#include "tests/support/sokoban_solver.hpp"

namespace cohort::tasks {
namespace {

struct Tag {
  const char* name;
  SokobanRoomOptions options;
  size_t distinct_min;  // of 300 seeds: a 6 x 6 room has few cells to differ in
};
/// ROLL's three (traj_envs.yaml); the third differs in its glyphs and in search_depth.
constexpr std::array<Tag, 3> k_tags{{{"SimpleSokoban", {6, 6, 1, 300}, 270},
                                     {"LargerSokoban", {10, 10, 2, 10}, 299},
                                     {"SokobanDifferentGridVocab", {6, 6, 1, 30}, 270}}};

SokobanConfig config_of(const SokobanRoomOptions& options) {
  SokobanConfig config;
  config.dim_room = {options.rows, options.columns};
  config.num_boxes = options.num_boxes;
  config.search_depth = options.search_depth;
  config.max_steps = 1000;
  return config;
}

/// Solves the room of `seed` from its text and plays the solution. Returns its number of moves.
int solve_and_play(Sokoban& game, uint64_t seed, bool is_breadth_first) {
  const std::string text = game.reset(seed);
  auto way = support::solve(text, is_breadth_first);
  EXPECT_TRUE(way.has_value() && !way->empty()) << "seed " << seed << " has no solution\n" << text;
  if (!way || way->empty()) return -1;
  double total = 0;
  StepResult result;
  for (const std::string& action : *way) {
    EXPECT_FALSE(result.is_done) << "seed " << seed << " ended before " << action;
    result = game.step("<answer>" + action + "</answer>");
    EXPECT_TRUE(result.is_effective) << "seed " << seed << ": " << action << " moved nothing";
    total += static_cast<double>(result.reward);
  }
  EXPECT_TRUE(result.is_done && result.is_success) << "seed " << seed << "\n" << text;
  EXPECT_EQ(result.stop_reason, "goal");
  const double boxes = static_cast<double>(game.room().boxes.size());
  EXPECT_NEAR(total, 10 + boxes - 0.1 * static_cast<double>(way->size()), 1e-4) << "seed " << seed;
  return static_cast<int>(way->size());
}

TEST(SokobanRooms, EachOfTheThreeTagsHasASolution) {
  constexpr uint64_t k_seeds = 300;
  for (const Tag& tag : k_tags) {
    auto game = Sokoban::create(config_of(tag.options));
    ASSERT_TRUE(game.has_value()) << game.error().to_string();
    std::set<std::string> distinct;
    int in_ten_moves = 0;
    for (uint64_t seed = 0; seed < k_seeds; ++seed) {
      const int moves = solve_and_play(**game, seed, tag.options.num_boxes == 1);
      ASSERT_GT(moves, 0) << tag.name;
      in_ten_moves += moves <= 10 ? 1 : 0;
      distinct.insert((*game)->reset(seed));
    }
    EXPECT_GE(distinct.size(), tag.distinct_min) << tag.name;
    RecordProperty(std::string(tag.name) + "_distinct", static_cast<int>(distinct.size()));
    RecordProperty(std::string(tag.name) + "_solved_in_10", in_ten_moves);
  }
}

TEST(SokobanRooms, RandomSizesHaveSolutionsToo) {
  Rng rng(11);
  int made = 0;
  for (int trial = 0; trial < 60; ++trial) {
    SokobanRoomOptions options;
    options.rows = 5 + static_cast<int>(rng.below(5));
    options.columns = 5 + static_cast<int>(rng.below(5));
    options.num_boxes = 1 + static_cast<int>(rng.below(3));
    options.search_depth = 3 + static_cast<int>(rng.below(60));
    if (!check_room_options(options)) continue;
    auto game = Sokoban::create(config_of(options));
    ASSERT_TRUE(game.has_value());
    ASSERT_GT(solve_and_play(**game, rng.next_u64(), false), 0) << "trial " << trial;
    ++made;
  }
  EXPECT_GT(made, 30);
}

TEST(SokobanRooms, ThreadsMakeTheSameRooms) {
  constexpr uint64_t k_seeds = 64;
  std::vector<SokobanRoom> alone;
  for (uint64_t seed = 0; seed < k_seeds; ++seed)
    alone.push_back(generate_room(seed, k_tags[1].options));
  std::array<std::vector<SokobanRoom>, 4> together;
  std::vector<std::thread> threads;
  for (auto& rooms : together)
    threads.emplace_back([&rooms] {
      for (uint64_t seed = 0; seed < k_seeds; ++seed)
        rooms.push_back(generate_room(seed, k_tags[1].options));
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& rooms : together) EXPECT_EQ(rooms, alone);
}

TEST(SokobanRooms, AWanderingPlayerNeverBreaksTheRules) {
  auto game = Sokoban::create(config_of(k_tags[1].options));
  ASSERT_TRUE(game.has_value());
  Rng rng(5);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    (*game)->reset(seed);
    for (int turn = 0; turn < 200 && !(*game)->is_done(); ++turn) {
      const SokobanRoom before = (*game)->room();
      const StepResult result = (*game)->play(static_cast<SokobanMove>(rng.below(4)));
      const SokobanRoom& after = (*game)->room();
      ASSERT_EQ(after.cells, before.cells);
      ASSERT_EQ(after.boxes.size(), before.boxes.size());
      ASSERT_EQ(result.is_effective, after.player != before.player);
      ASSERT_EQ(result.event == "pushed" || result.event == "solved", after.boxes != before.boxes);
      ASSERT_FALSE(after.is_wall(after.player) || after.has_box(after.player));
      for (size_t i = 0; i < after.boxes.size(); ++i) {
        ASSERT_FALSE(after.is_wall(after.boxes[i]));
        ASSERT_TRUE(i == 0 || after.boxes[i - 1] < after.boxes[i]);
      }
    }
  }
}

}  // namespace
}  // namespace cohort::tasks
