#include "runtime/tasks/frozen_lake_map.hpp"

#include "runtime/base/check.hpp"
#include "runtime/tasks/pcg64.hpp"

namespace cohort::tasks {
namespace {

void draw_attempt(Pcg64& rng, double p, FrozenLakeMap& map) {
  const std::array<double, 2> probabilities{p, 1 - p};
  for (char& cell : map.cells) cell = rng.choice(probabilities) == 0 ? 'F' : 'H';
  const auto size = static_cast<uint64_t>(map.size);
  do {
    uint64_t start_row = rng.integers(size);
    uint64_t start_column = rng.integers(size);
    uint64_t goal_row = rng.integers(size);
    uint64_t goal_column = rng.integers(size);
    map.start = static_cast<int>(start_row * size + start_column);
    map.goal = static_cast<int>(goal_row * size + goal_column);
  } while (map.start == map.goal);
  map.cells[static_cast<size_t>(map.start)] = 'S';
  map.cells[static_cast<size_t>(map.goal)] = 'G';
}

}  // namespace

FrozenLakeMap generate_map(uint64_t seed, int size, double p) {
  COHORT_CHECK(size >= 2, "generate_map: a lake needs two cells a side for start and goal");
  COHORT_CHECK(p > 0 && p <= 1, "generate_map: p is a probability above 0");
  Pcg64 rng(seed);
  FrozenLakeMap map;
  map.size = size;
  map.cells.assign(static_cast<size_t>(size) * static_cast<size_t>(size), 'F');
  do {
    draw_attempt(rng, p, map);
  } while (distances_to_goal(map)[static_cast<size_t>(map.start)] < 0);
  return map;
}

int neighbour(const FrozenLakeMap& map, int cell, Action action) {
  int row = cell / map.size;
  int column = cell % map.size;
  switch (action) {
    case Action::left:
      return column > 0 ? cell - 1 : cell;
    case Action::down:
      return row + 1 < map.size ? cell + map.size : cell;
    case Action::right:
      return column + 1 < map.size ? cell + 1 : cell;
    case Action::up:
      return row > 0 ? cell - map.size : cell;
  }
  return cell;
}

std::vector<int> distances_to_goal(const FrozenLakeMap& map) {
  std::vector<int> distance(map.cells.size(), -1);
  std::vector<int> queue{map.goal};
  queue.reserve(map.cells.size());
  distance[static_cast<size_t>(map.goal)] = 0;
  for (size_t head = 0; head < queue.size(); ++head) {
    int cell = queue[head];
    for (int action = 0; action < k_action_count; ++action) {
      int next = neighbour(map, cell, static_cast<Action>(action));
      if (map.is_hole(next) || distance[static_cast<size_t>(next)] >= 0) continue;
      distance[static_cast<size_t>(next)] = distance[static_cast<size_t>(cell)] + 1;
      queue.push_back(next);
    }
  }
  return distance;
}

}  // namespace cohort::tasks
