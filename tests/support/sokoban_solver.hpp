#pragma once
/// A shortest way to solve a Sokoban room, from its text alone (glyphs # _ O √ X P S): shares no
/// code with runtime/tasks, so that one can check the other. A* over (player, boxes), one action a
/// step; with an estimate of 0 it is breadth-first search.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

namespace cohort::tasks::support {

struct SolverRoom {
  int columns = 0;
  std::string walls;  // '#' or ' '
  std::vector<int> targets, boxes;
  int player = -1;
};

inline SolverRoom read_room(std::string text) {
  for (size_t at; (at = text.find("√")) != std::string::npos;)
    text.replace(at, std::string("√").size(), "*");
  SolverRoom room;
  room.columns = static_cast<int>(text.find('\n'));
  for (char glyph : text) {
    if (glyph == '\n') continue;
    const int cell = static_cast<int>(room.walls.size());
    room.walls += glyph == '#' ? '#' : ' ';
    if (glyph == 'O' || glyph == '*' || glyph == 'S') room.targets.push_back(cell);
    if (glyph == 'X' || glyph == '*') room.boxes.push_back(cell);
    if (glyph == 'P' || glyph == 'S') room.player = cell;
  }
  return room;
}

/// Returns the actions ("Up" …) of a shortest solution; nothing: there is none.
inline std::optional<std::vector<std::string>> solve(const std::string& text,
                                                     bool is_breadth_first) {
  const SolverRoom room = read_room(text);
  using State = std::pair<int, std::vector<int>>;  // player, boxes ascending
  struct Reached {
    int moves = 0;
    State before;
    int action = -1;
  };
  const std::vector<std::pair<int, std::string>> actions{
      {-room.columns, "Up"}, {room.columns, "Down"}, {-1, "Left"}, {1, "Right"}};
  auto estimate = [&](const std::vector<int>& boxes) {
    int sum = 0;
    for (int box : boxes) {
      int nearest = 1 << 20;
      for (int target : room.targets)
        nearest = std::min(nearest, std::abs(box / room.columns - target / room.columns) +
                                        std::abs(box % room.columns - target % room.columns));
      sum += nearest;
    }
    return is_breadth_first ? 0 : sum;
  };
  std::map<State, Reached> reached;
  using Entry = std::tuple<int, int, State>;  // estimated total, moves, state
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  reached[{room.player, room.boxes}] = {};
  open.emplace(estimate(room.boxes), 0, State{room.player, room.boxes});
  while (!open.empty()) {
    auto [total, moves, state] = open.top();
    open.pop();
    if (moves > reached[state].moves) continue;
    if (state.second == room.targets) {
      std::vector<std::string> way;
      for (const Reached* at = &reached[state]; at->action >= 0; at = &reached[at->before])
        way.push_back(actions[static_cast<size_t>(at->action)].second);
      return std::vector<std::string>(way.rbegin(), way.rend());
    }
    for (int action = 0; action < 4; ++action) {
      const int step = actions[static_cast<size_t>(action)].first;
      State next = state;
      next.first += step;
      if (room.walls[static_cast<size_t>(next.first)] == '#') continue;
      auto box = std::find(next.second.begin(), next.second.end(), next.first);
      if (box != next.second.end()) {
        const int beyond = next.first + step;
        if (room.walls[static_cast<size_t>(beyond)] == '#' ||
            std::count(next.second.begin(), next.second.end(), beyond) > 0)
          continue;
        *box = beyond;
        std::sort(next.second.begin(), next.second.end());
      }
      auto known = reached.find(next);
      if (known != reached.end() && known->second.moves <= moves + 1) continue;
      reached[next] = {moves + 1, state, action};
      open.emplace(moves + 1 + estimate(next.second), moves + 1, next);
    }
  }
  return std::nullopt;
}

}  // namespace cohort::tasks::support
