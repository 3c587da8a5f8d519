#pragma once
/// FrozenLake maps: drawn from a seed exactly as a numpy Generator would draw them. Pure.
/// Order of draws of one attempt: size*size cells by choice(["F","H"], p=[p, 1-p]) in row-major
/// order; then integers(0, size) four times, start row, start column, goal row, goal column,
/// repeated until start and goal differ; then S and G are written over the cells. An attempt
/// without a path from S to G is thrown away and the next one goes on with the same generator
/// (tools/golden/make_frozen_lake_maps.py is the reference).
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace cohort::tasks {

enum class Action : uint8_t { left = 0, down = 1, right = 2, up = 3 };
inline constexpr int k_action_count = 4;
inline constexpr std::array<const char*, k_action_count> k_action_names{"Left", "Down", "Right",
                                                                        "Up"};

/// A square of cells, row-major: 'S' start, 'G' goal, 'F' frozen, 'H' hole.
struct FrozenLakeMap {
  int size = 0;
  std::string cells;
  int start = 0;  // index into cells
  int goal = 0;   // index into cells
  bool operator==(const FrozenLakeMap&) const = default;
  bool is_hole(int cell) const { return cells[static_cast<size_t>(cell)] == 'H'; }
};

/// Returns the map of `seed`. size >= 2, 0 < p <= 1 (the probability that a cell is frozen).
FrozenLakeMap generate_map(uint64_t seed, int size, double p);
/// Returns the cell one step from `cell`, or `cell` itself at the border.
int neighbour(const FrozenLakeMap& map, int cell, Action action);
/// Returns for each cell the number of moves to the goal around the holes; -1 for holes and cells
/// cut off.
std::vector<int> distances_to_goal(const FrozenLakeMap& map);

}  // namespace cohort::tasks
