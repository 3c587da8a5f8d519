#include "runtime/tasks/sokoban_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "runtime/base/check.hpp"
#include "runtime/base/rng.hpp"
#include "runtime/tasks/pcg64.hpp"

namespace cohort::tasks {
namespace {

constexpr double k_turn_share = 0.35;     // of the walk's steps that change direction
constexpr double k_walk_per_side = 1.7;   // steps of the walk per row and column
constexpr size_t k_states_max = 300'000;  // of one backward search
constexpr double k_wander_near = 0.8;     // the player wanders off: boxes one step from target
constexpr double k_wander_far = 0.5;      // ... farther
constexpr int k_wander_steps = 3;
constexpr double k_wander_on = 0.5;   // after each of them
constexpr int k_rooms_max = 4096;     // of one room
constexpr int k_probe_attempts = 64;  // check_room_options: of each probe seed
constexpr uint64_t k_probe_seeds = 4;

/// Floor stamps around the walker, bit 3 * (row + 1) + (column + 1): two bars, three corners.
constexpr std::array<uint16_t, 5> k_stamps{0b000'111'000, 0b010'010'010, 0b010'011'000,
                                           0b011'011'000, 0b010'110'000};

int offset(const SokobanRoom& room, int move) {
  switch (static_cast<SokobanMove>(move)) {
    case SokobanMove::up:
      return -room.columns;
    case SokobanMove::down:
      return room.columns;
    case SokobanMove::left:
      return -1;
    case SokobanMove::right:
      return 1;
  }
  return 0;
}

void stamp_floor(SokobanRoom& room, int row, int column, uint16_t stamp) {
  for (int bit = 0; bit < 9; ++bit) {
    if (((stamp >> bit) & 1) == 0) continue;
    int r = row + bit / 3 - 1, c = column + bit % 3 - 1;
    if (r > 0 && r + 1 < room.rows && c > 0 && c + 1 < room.columns)
      room.cells[static_cast<size_t>(r * room.columns + c)] = '_';
  }
}

void carve(SokobanRoom& room, Pcg64& rng) {
  room.cells.assign(static_cast<size_t>(room.rows) * static_cast<size_t>(room.columns), '#');
  auto draw = [&](int bound) {
    return static_cast<int>(rng.integers(static_cast<uint64_t>(bound)));
  };
  int row = 1 + draw(room.rows - 2);
  int column = 1 + draw(room.columns - 2);
  int direction = draw(k_sokoban_move_count);
  const int steps = static_cast<int>(k_walk_per_side * (room.rows + room.columns));
  for (int step = 0; step < steps; ++step) {
    if (rng.random() < k_turn_share) direction = draw(k_sokoban_move_count);
    const int down = direction == 0 ? -1 : direction == 1 ? 1 : 0;
    const int right = direction == 2 ? -1 : direction == 3 ? 1 : 0;
    row = std::clamp(row + down, 1, room.rows - 2);
    column = std::clamp(column + right, 1, room.columns - 2);
    stamp_floor(room, row, column, k_stamps[static_cast<size_t>(draw(k_stamps.size()))]);
  }
}

/// Puts the player and the boxes, each on a target, on distinct cells; false: too little floor.
bool place(SokobanRoom& room, int num_boxes, Pcg64& rng) {
  std::vector<int> free;
  for (int cell = 0; cell < static_cast<int>(room.cells.size()); ++cell) {
    if (!room.is_wall(cell)) free.push_back(cell);
  }
  if (static_cast<int>(free.size()) <= num_boxes + 1) return false;
  auto take = [&] {
    const size_t at = rng.integers(free.size());
    const int cell = free[at];
    free.erase(free.begin() + static_cast<ptrdiff_t>(at));
    return cell;
  };
  room.player = take();
  room.boxes.clear();
  for (int box = 0; box < num_boxes; ++box) {
    room.boxes.push_back(take());
    room.cells[static_cast<size_t>(room.boxes.back())] = 'O';
  }
  return true;
}

/// Player and boxes, 12 bits a cell: k_sokoban_side_max and k_sokoban_boxes_max fit exactly.
struct StateKey {
  uint64_t low = ~uint64_t{0};  // all ones: an empty slot
  uint64_t high = 0;
  bool operator==(const StateKey&) const = default;
};
static_assert(k_sokoban_side_max * k_sokoban_side_max <= 1 << 12 && k_sokoban_boxes_max <= 8);

/// Open addressing; grows by doubling at half full.
class StateSet {
 public:
  StateSet() : slots_(1024) {}
  size_t size() const { return size_; }
  /// Returns false if the key was there.
  bool insert(const StateKey& key) {
    if (size_ * 2 >= slots_.size()) grow();
    StateKey& slot = find(key);
    if (slot == key) return false;
    slot = key;
    ++size_;
    return true;
  }

 private:
  StateKey& find(const StateKey& key) {
    size_t at = mix64(key.low ^ mix64(key.high)) & (slots_.size() - 1);
    while (!(slots_[at] == StateKey{}) && !(slots_[at] == key)) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  void grow() {
    std::vector<StateKey> old(slots_.size() * 2);
    old.swap(slots_);
    for (const StateKey& key : old) {
      if (!(key == StateKey{})) find(key) = key;
    }
  }
  std::vector<StateKey> slots_;
  size_t size_ = 0;
};

/// Depth-first search of backward moves: the player steps to a free cell and pulls the box behind
/// it, if there is one. The first room of the best score is kept.
class BackwardSearch {
 public:
  explicit BackwardSearch(SokobanRoom room)
      : room_(std::move(room)), boxes_(room_.boxes), targets_(boxes_), box_at_(room_.cells.size()) {
    std::fill(box_at_.begin(), box_at_.end(), -1);
    for (size_t box = 0; box < boxes_.size(); ++box)
      box_at_[static_cast<size_t>(boxes_[box])] = static_cast<int>(box);
  }

  void explore(int depth_left, int swaps, int last_pulled) {
    if (--depth_left <= 0 || seen_.size() >= k_states_max || !seen_.insert(key())) return;
    keep_if_best(swaps);
    for (int move = 0; move < k_sokoban_move_count; ++move) {
      const int step = offset(room_, move);
      const int from = room_.player;
      if (room_.is_wall(from + step) || box_at_[static_cast<size_t>(from + step)] >= 0) continue;
      const int pulled = box_at_[static_cast<size_t>(from - step)];
      room_.player = from + step;
      if (pulled >= 0) put(pulled, from);
      const bool is_swap = pulled >= 0 && pulled != last_pulled;
      explore(depth_left, swaps + (is_swap ? 1 : 0), pulled >= 0 ? pulled : last_pulled);
      if (pulled >= 0) put(pulled, from - step);
      room_.player = from;
    }
  }

  /// The best room found, and how far its boxes are from their targets.
  std::optional<SokobanRoom> best() const { return best_; }
  int best_distance() const { return best_distance_; }

 private:
  void put(int box, int cell) {
    box_at_[static_cast<size_t>(boxes_[static_cast<size_t>(box)])] = -1;
    boxes_[static_cast<size_t>(box)] = cell;
    box_at_[static_cast<size_t>(cell)] = box;
  }

  /// The same for any numbering of the boxes.
  StateKey key() const {
    std::array<int, k_sokoban_boxes_max> sorted{};
    for (size_t count = 0; count < boxes_.size(); ++count) {  // by insertion
      size_t at = count;
      for (; at > 0 && sorted[at - 1] > boxes_[count]; --at) sorted[at] = sorted[at - 1];
      sorted[at] = boxes_[count];
    }
    StateKey key{static_cast<uint64_t>(room_.player), 0};
    for (size_t box = 0; box < sorted.size(); ++box) {
      uint64_t& word = box < 4 ? key.low : key.high;
      word = word << 12 | static_cast<uint64_t>(sorted[box]);
    }
    return key;
  }

  void keep_if_best(int swaps) {
    int distance = 0;
    for (size_t box = 0; box < boxes_.size(); ++box) {
      const int from = targets_[box], to = boxes_[box];
      if (room_.is_target(to)) return;
      distance += std::abs(from / room_.columns - to / room_.columns) +
                  std::abs(from % room_.columns - to % room_.columns);
    }
    if (swaps * distance <= best_score_) return;
    best_score_ = swaps * distance;
    best_distance_ = distance;
    best_ = room_;
    best_->boxes = boxes_;
    std::sort(best_->boxes.begin(), best_->boxes.end());
  }

  SokobanRoom room_;
  std::vector<int> boxes_;  // by number; room_.boxes stays as it was
  std::vector<int> targets_;
  std::vector<int> box_at_;  // cell -> box or -1
  StateSet seen_;
  std::optional<SokobanRoom> best_;
  int best_score_ = 0;
  int best_distance_ = 0;
};

/// Walks the player a few steps over free cells: what it undoes stays solvable.
void wander(SokobanRoom& room, int distance, Pcg64& rng) {
  if (rng.random() >= (distance == 1 ? k_wander_near : k_wander_far)) return;
  for (int step = 0; step < k_wander_steps; ++step) {
    std::vector<int> free;
    for (int move = 0; move < k_sokoban_move_count; ++move) {
      const int next = room.player + offset(room, move);
      if (!room.is_wall(next) && !room.has_box(next)) free.push_back(next);
    }
    if (free.empty()) return;
    room.player = free[rng.integers(free.size())];
    if (rng.random() >= k_wander_on) return;
  }
}

std::optional<SokobanRoom> attempt(const SokobanRoomOptions& options, Pcg64& rng) {
  SokobanRoom room;
  room.rows = options.rows;
  room.columns = options.columns;
  carve(room, rng);
  if (!place(room, options.num_boxes, rng)) return std::nullopt;
  BackwardSearch search(std::move(room));
  search.explore(options.search_depth, 0, -1);
  std::optional<SokobanRoom> best = search.best();
  if (best) wander(*best, search.best_distance(), rng);
  return best;
}

std::optional<SokobanRoom> try_room(uint64_t seed, const SokobanRoomOptions& options,
                                    int attempts) {
  Pcg64 rng(seed);
  for (int i = 0; i < attempts; ++i) {
    if (std::optional<SokobanRoom> room = attempt(options, rng)) return room;
  }
  return std::nullopt;
}

Expected<void> check_range(const char* name, int value, int low, int high) {
  if (value >= low && value <= high) return {};
  return Error{Errc::invalid_argument,
               fmt::format("sokoban: {} is {}, must be {}..{}", name, value, low, high)};
}

}  // namespace

bool SokobanRoom::has_box(int cell) const {
  return std::find(boxes.begin(), boxes.end(), cell) != boxes.end();
}

bool SokobanRoom::is_solved() const {
  return std::all_of(boxes.begin(), boxes.end(), [&](int box) { return is_target(box); });
}

Expected<void> check_room_options(const SokobanRoomOptions& options) {
  COHORT_TRY(check_range("dim_room[0] (rows)", options.rows, 5, k_sokoban_side_max));
  COHORT_TRY(check_range("dim_room[1] (columns)", options.columns, 5, k_sokoban_side_max));
  COHORT_TRY(check_range("num_boxes", options.num_boxes, 1, k_sokoban_boxes_max));
  COHORT_TRY(check_range("search_depth", options.search_depth, 2, k_sokoban_depth_max));
  for (uint64_t seed = 0; seed < k_probe_seeds; ++seed) {
    if (!try_room(seed, options, k_probe_attempts))
      return Error{Errc::invalid_argument,
                   fmt::format("sokoban: no room of {} x {} cells with {} boxes came out of {} "
                               "attempts with search_depth {}: take a larger room, fewer boxes or "
                               "a deeper search",
                               options.rows, options.columns, options.num_boxes, k_probe_attempts,
                               options.search_depth)};
  }
  return {};
}

SokobanRoom generate_room(uint64_t seed, const SokobanRoomOptions& options) {
  std::optional<SokobanRoom> room = try_room(seed, options, k_rooms_max);
  COHORT_CHECK(room.has_value(), "SOKOBAN-1: generate_room without check_room_options");
  return std::move(*room);
}

SokobanEvent move_player(SokobanRoom& room, SokobanMove move) {
  const int step = offset(room, static_cast<int>(move));
  const int next = room.player + step;
  if (room.is_wall(next)) return SokobanEvent::blocked;
  auto box = std::find(room.boxes.begin(), room.boxes.end(), next);
  if (box == room.boxes.end()) {
    room.player = next;
    return SokobanEvent::moved;
  }
  if (room.is_wall(next + step) || room.has_box(next + step)) return SokobanEvent::blocked;
  *box = next + step;
  std::sort(room.boxes.begin(), room.boxes.end());
  room.player = next;
  return SokobanEvent::pushed;
}

}  // namespace cohort::tasks
