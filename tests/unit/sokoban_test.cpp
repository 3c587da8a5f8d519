#include "runtime/tasks/sokoban.hpp"

#include <gtest/gtest.h>

#include "tests/support/sokoban_solver.hpp"

namespace cohort::tasks {
namespace {

std::unique_ptr<Sokoban> make_game(const SokobanConfig& config = {}) {
  auto game = Sokoban::create(config);
  EXPECT_TRUE(game.has_value()) << game.error().to_string();
  return std::move(*game);
}

double metric(const Sokoban& game, std::string_view name) {
  for (const auto& [key, value] : game.metrics()) {
    if (key == name) return value;
  }
  ADD_FAILURE() << "no metric " << name;
  return -1;
}

std::string answer(const std::string& word) { return "<answer>" + word + "</answer>"; }

/// A room that needs no generator:  #####
///                                  #P__#
///                                  #_XO#
///                                  #####
SokobanRoom small_room() {
  SokobanRoom room;
  room.rows = 4;
  room.columns = 5;
  room.cells = "######___##__O######";
  room.boxes = {12};
  room.player = 6;
  return room;
}

TEST(SokobanRoom, PushesABoxButNotIntoAWall) {
  SokobanRoom room = small_room();
  EXPECT_EQ(move_player(room, SokobanMove::up), SokobanEvent::blocked);
  EXPECT_EQ(move_player(room, SokobanMove::left), SokobanEvent::blocked);
  EXPECT_EQ(move_player(room, SokobanMove::right), SokobanEvent::moved);
  EXPECT_EQ(room.player, 7);
  EXPECT_EQ(move_player(room, SokobanMove::down), SokobanEvent::blocked);  // box against the wall
  EXPECT_EQ(move_player(room, SokobanMove::left), SokobanEvent::moved);
  EXPECT_EQ(move_player(room, SokobanMove::down), SokobanEvent::moved);
  EXPECT_FALSE(room.is_solved());
  EXPECT_EQ(move_player(room, SokobanMove::right), SokobanEvent::pushed);
  EXPECT_TRUE(room.is_solved());
  EXPECT_EQ(room.player, 12);
  EXPECT_EQ(move_player(room, SokobanMove::right), SokobanEvent::blocked);
}

TEST(SokobanRoom, ABoxDoesNotPushABox) {
  SokobanRoom room = small_room();
  room.boxes = {12, 13};
  room.player = 11;
  EXPECT_EQ(move_player(room, SokobanMove::right), SokobanEvent::blocked);
}

TEST(Sokoban, ShowsWallsBoxesTargetsAndThePlayer) {
  auto game = make_game();
  const std::string text = game->reset(1);
  const support::SolverRoom read = support::read_room(text);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
  EXPECT_EQ(read.player, game->room().player);
  EXPECT_EQ(read.boxes, game->room().boxes);
  EXPECT_EQ(read.targets.size(), 1U);
  for (int cell = 0; cell < 36; ++cell)
    EXPECT_EQ(read.walls[static_cast<size_t>(cell)] == '#', game->room().is_wall(cell));
}

TEST(Sokoban, OffAndOnATargetPayMinusAndPlusOne) {
  SokobanConfig config;
  config.max_steps = 200;
  config.dim_room = {10, 10};
  config.num_boxes = 2;
  auto game = make_game(config);
  int offs = 0, ons = 0;
  // Two boxes: one may go on and off again while the other keeps the room unsolved.
  for (uint64_t seed = 0; seed < 40 && (offs == 0 || ons == 0); ++seed) {
    auto way = support::solve(game->reset(seed), false);
    ASSERT_TRUE(way.has_value());
    for (size_t i = 0; i < way->size() && !game->is_done(); ++i) {
      const StepResult result = game->step(answer((*way)[i]));
      if (result.is_done || result.event != "pushed" || result.reward < 0.5F) continue;
      EXPECT_FLOAT_EQ(result.reward, 0.9F);
      EXPECT_NE(result.observation.find("√"), std::string::npos);
      ++ons;
      const StepResult on = game->step(answer((*way)[i]));
      if (on.event != "pushed") break;  // the box stands against something
      EXPECT_FLOAT_EQ(on.reward, -1.1F);
      ++offs;
      break;
    }
  }
  EXPECT_GT(ons, 0);
  EXPECT_GT(offs, 0);
}

TEST(Sokoban, ThePlayerOnATargetHasItsOwnSymbol) {
  auto game = make_game();
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string text = game->reset(seed);
    const SokobanRoom& room = game->room();
    EXPECT_EQ(text.find('S') != std::string::npos, room.is_target(room.player)) << seed;
  }
}

TEST(Sokoban, AnInvalidAnswerCostsTheTurnAndThePenalty) {
  auto game = make_game();
  const std::string before = game->reset(3);
  for (const char* text : {"", "Up", "<answer>North</answer>", "<answer>1</answer>"}) {
    const StepResult result = game->step(text);
    EXPECT_FLOAT_EQ(result.reward, -0.25F) << text;
    EXPECT_FALSE(result.is_valid || result.is_effective || result.is_done);
    EXPECT_EQ(result.event, "invalid");
    EXPECT_EQ(result.observation, before);
  }
  EXPECT_EQ(game->actions_left(), 6);
  EXPECT_EQ(metric(*game, "action_is_valid"), 0);
  EXPECT_NEAR(metric(*game, "format_penalty"), -0.15, 1e-6);
  EXPECT_EQ(metric(*game, "num_actions"), 4);
  EXPECT_EQ(metric(*game, "success"), 0);
}

TEST(Sokoban, AnInvalidAnswerMayBeTheLastTurn) {
  SokobanConfig config;
  config.max_steps = 2;
  auto game = make_game(config);
  game->reset(3);
  EXPECT_FALSE(game->step("?").is_done);
  const StepResult last = game->step("?");
  EXPECT_TRUE(last.is_done);
  EXPECT_EQ(last.stop_reason, "max_turns");
  EXPECT_EQ(game->actions_left(), 0);
}

TEST(Sokoban, TheLastMoveMaySolveTheRoomAndIsNoTimeout) {
  SokobanConfig config;
  auto scout = make_game(config);
  auto way = support::solve(scout->reset(9), true);
  ASSERT_TRUE(way.has_value());
  config.max_steps = static_cast<int>(way->size());
  auto game = make_game(config);
  game->reset(9);
  StepResult result;
  for (const std::string& move : *way) result = game->step(answer(move));
  EXPECT_TRUE(result.is_done && result.is_success);
  EXPECT_EQ(result.stop_reason, "goal");
  EXPECT_EQ(result.event, "solved");
  EXPECT_FLOAT_EQ(result.reward, 10.9F);
  EXPECT_EQ(metric(*game, "success"), 1);
  EXPECT_EQ(metric(*game, "action_is_effective"), 1);
}

TEST(SokobanDeathTest, NothingAfterTheEnd) {
  auto game = make_game();
  EXPECT_DEATH(game->step(answer("Left")), "TASK-2");
}

SokobanConfig letters() {
  SokobanConfig config;
  config.search_depth = 30;
  config.grid_lookup = {{0, "W"}, {1, "."}, {2, "G"}, {3, "C"}, {4, "B"}, {5, "A"}, {6, "@"}};
  config.grid_vocab = {
      {"W", "wall"}, {".", "empty"},  {"G", "target"},          {"C", "parcel home"},
      {"B", "box"},  {"A", "player"}, {"@", "player on target"}};
  return config;
}

TEST(Sokoban, OtherSymbolsShowTheSameRoom) {
  SokobanConfig plain = letters();
  plain.grid_lookup.clear();
  plain.grid_vocab.clear();
  auto game = make_game(plain);
  auto lettered = make_game(letters());
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::string expected = game->reset(seed);
    for (char& glyph : expected) {
      const size_t at = std::string_view("#_OXPS").find(glyph);
      if (at != std::string::npos) glyph = "W.GBA@"[at];
    }
    EXPECT_EQ(lettered->reset(seed), expected);
  }
}

TEST(Sokoban, InstructionsNameSymbolsAndActions) {
  EXPECT_NE(make_game()->instructions().find(
                "Symbols: # wall, _ floor, O target, √ box on target, X box, P you, S you on "
                "target.\nActions: Up, Down, Left, Right."),
            std::string::npos);
  EXPECT_TRUE(make_game(letters())->instructions().ends_with(
      "\nSymbols: W wall, . empty, G target, C parcel home, B box, A player, @ player on target.\n"
      "Actions: Up, Down, Left, Right. One action a turn."));
}

TEST(Sokoban, RefusesWhatCannotWork) {
  auto refusal = [](auto change) {
    SokobanConfig config;
    change(config);
    auto game = Sokoban::create(config);
    return game.has_value() ? std::string("accepted") : game.error().to_string();
  };
  using C = SokobanConfig;
  EXPECT_EQ(refusal([](C& c) {
              c.dim_room = {4, 6};
            }),
            "invalid argument: sokoban: dim_room[0] (rows) is 4, must be 5..64");
  EXPECT_EQ(refusal([](C& c) {
              c.dim_room = {6, 65};
            }),
            "invalid argument: sokoban: dim_room[1] (columns) is 65, must be 5..64");
  EXPECT_EQ(refusal([](C& c) { c.num_boxes = 0; }),
            "invalid argument: sokoban: num_boxes is 0, must be 1..8");
  EXPECT_EQ(refusal([](C& c) { c.search_depth = 1; }),
            "invalid argument: sokoban: search_depth is 1, must be 2..10000");
  EXPECT_EQ(refusal([](C& c) { c.max_steps = 0; }),
            "invalid argument: sokoban: max_steps is 0, must be at least 1");
  EXPECT_EQ(
      refusal([](C& c) {
        c.dim_room = {5, 5}, c.num_boxes = 8;
      }),
      "invalid argument: sokoban: no room of 5 x 5 cells with 8 boxes came out of 64 attempts "
      "with search_depth 300: take a larger room, fewer boxes or a deeper search");
  EXPECT_EQ(refusal([](C& c) {
              c.grid_lookup = {{7, "?"}};
            }),
            "invalid argument: sokoban: grid_lookup has key 7, keys are 0..6 (wall, floor, target, "
            "box on target, box, player, player on target)");
  EXPECT_EQ(refusal([](C& c) {
              c.grid_lookup = {{1, "#"}};
            }),
            "invalid argument: sokoban: grid_lookup shows 0 (wall) and 1 (floor) both as '#'");
  EXPECT_EQ(refusal([](C& c) {
              c.grid_lookup = {{1, "a\nb"}};
            }),
            "invalid argument: sokoban: grid_lookup.1 is empty or holds a line break");
  EXPECT_EQ(refusal([](C& c) {
              c.grid_vocab = {{"#", "wall"}};
            }),
            "invalid argument: sokoban: grid_vocab says nothing of '_' (floor), which grid_lookup "
            "shows");
  EXPECT_NE(refusal([](C& c) { c.action_pattern = "<answer>"; }).find("needs a group"),
            std::string::npos);
}

}  // namespace
}  // namespace cohort::tasks
