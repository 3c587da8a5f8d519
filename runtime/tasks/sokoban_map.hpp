#pragma once
/// Sokoban rooms, made by playing backwards from a solved one (docs/environments.md). Random
/// numbers come from Pcg64(seed) alone: rooms are equal in every process. Pure; no globals: any
/// number of threads may make rooms. SOKOBAN-1: a room has a solution.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"

namespace cohort::tasks {

/// ROLL's action numbers are these + 1.
enum class SokobanMove : uint8_t { up = 0, down = 1, left = 2, right = 3 };
inline constexpr int k_sokoban_move_count = 4;
inline constexpr std::array<const char*, k_sokoban_move_count> k_sokoban_move_names{
    "Up", "Down", "Left", "Right"};

/// Cells are indices, row-major. The border is wall all around.
struct SokobanRoom {
  int rows = 0;
  int columns = 0;
  std::string cells;       // cells that do not move: '#' wall, '_' floor, 'O' target
  std::vector<int> boxes;  // ascending
  int player = 0;
  bool operator==(const SokobanRoom&) const = default;

  bool is_wall(int cell) const { return cells[static_cast<size_t>(cell)] == '#'; }
  bool is_target(int cell) const { return cells[static_cast<size_t>(cell)] == 'O'; }
  bool has_box(int cell) const;
  bool is_solved() const;  // each box is on a target
};

struct SokobanRoomOptions {
  int rows = 6;            // [cells] with the border, 5..k_sokoban_side_max
  int columns = 6;         // [cells]
  int num_boxes = 1;       // 1..k_sokoban_boxes_max
  int search_depth = 300;  // [pulls and steps] of the backward search, 2..k_sokoban_depth_max
};
inline constexpr int k_sokoban_side_max = 64;
inline constexpr int k_sokoban_boxes_max = 8;
inline constexpr int k_sokoban_depth_max = 10'000;

/// Returns Errc::invalid_argument naming the number that is out of range, or saying that rooms of
/// this size rarely have place for so many boxes (tried on a few seeds).
Expected<void> check_room_options(const SokobanRoomOptions& options);
/// Returns the room of `seed` (SOKOBAN-1). The options have passed check_room_options
/// (COHORT_CHECK): then an attempt that fails, fewer than 63 in 64, is repeated with the same
/// generator.
SokobanRoom generate_room(uint64_t seed, const SokobanRoomOptions& options);

/// The effect of a move on a room.
enum class SokobanEvent : uint8_t { blocked, moved, pushed };
/// Moves the player, and the box before it if the cell behind the box is free.
SokobanEvent move_player(SokobanRoom& room, SokobanMove move);

}  // namespace cohort::tasks
